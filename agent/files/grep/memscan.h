#ifndef AGENT_FILES_GREP_MEMSCAN_H
#define AGENT_FILES_GREP_MEMSCAN_H

#include <stddef.h>

/*
 * Questions about many bytes, answered for 16 of them at a time: the C library of the program goes
 * by words, or by bytes. Pure.
 *
 * Whatever is scanned must be followed by MEMSCAN_SLACK bytes that may be read; what they are
 * makes no difference.
 */
#define MEMSCAN_SLACK 64

enum byte_trait {
  BYTE_NUL = 1,
  BYTE_RETURN = 2, /* "\r" */
  BYTE_HIGH = 4    /* no ASCII */
};

/* Which traits any of the bytes has: their sum. */
unsigned memscan_traits(const char *text, size_t length);

/* Where this byte first is; `length` when it is nowhere. */
size_t memscan_first(const char *text, size_t length, char byte);

/* How many of the bytes are this one. */
size_t memscan_count(const char *text, size_t length, char byte);

/* A literal of which two bytes are looked at first. A byte fits when it is equal to that of the
   literal after the fold was set in it: 0x20 for a letter in either case. */
#define MEMSCAN_LITERAL_MAX 32
#define MEMSCAN_LITERALS_MAX 16
struct byte_literal {
  unsigned char bytes[MEMSCAN_LITERAL_MAX];
  unsigned char folds[MEMSCAN_LITERAL_MAX];
  size_t length; /* from 2 on */
  size_t first;  /* index of the one byte */
  size_t second; /* of the other */
};

/* Chooses the two that are rare in sources. */
void byte_literal_choose(struct byte_literal *self);

/* Where the first of any of the literals begins, from `from` on; `length` when there is none. There
   are 1 to MEMSCAN_LITERALS_MAX of them. */
size_t memscan_find(const char *text, size_t length, size_t from,
                    const struct byte_literal *literals, size_t count);

#endif
