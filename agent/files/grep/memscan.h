#ifndef AGENT_FILES_GREP_MEMSCAN_H
#define AGENT_FILES_GREP_MEMSCAN_H

#include <stddef.h>

/*
 * Searches text for bytes and literals, 16 bytes at a time; musl goes by words, or by bytes. Pure.
 *
 * The text must be followed by MEMSCAN_SLACK readable bytes, whose values do not matter: a block of
 * 16 bytes is loaded at the offset of any byte of a literal, which is below MEMSCAN_LITERAL_MAX.
 */
#define MEMSCAN_SLACK 64

enum byte_trait {
  BYTE_NUL = 1,
  BYTE_RETURN = 2, /* "\r" */
  BYTE_HIGH = 4    /* not ASCII */
};

/* The traits of all bytes, or-ed. */
unsigned memscan_traits(const char *text, size_t length);

/* Offset of the first such byte; `length` when there is none. */
size_t memscan_first(const char *text, size_t length, char byte);

/* Number of such bytes. */
size_t memscan_count(const char *text, size_t length, char byte);

/* A literal of which two bytes are compared first. A byte of the text matches when, or-ed with the
   fold (0x20 for a letter in either case, else 0), it equals the byte of the literal. */
#define MEMSCAN_LITERAL_MAX 32
#define MEMSCAN_LITERALS_MAX 16
struct byte_literal {
  unsigned char bytes[MEMSCAN_LITERAL_MAX], folds[MEMSCAN_LITERAL_MAX];
  size_t length; /* at least 2 */
  size_t first;  /* index of the byte that is compared first */
  size_t second; /* of the other */
};

/* Sets first and second to the two bytes that are rarest in source files. */
void byte_literal_choose(struct byte_literal *self);

/* Offset of the first occurrence of any literal, from `from` on; `length` when there is none.
   `count` is 1 to MEMSCAN_LITERALS_MAX. */
size_t memscan_find(const char *text, size_t length, size_t from,
                    const struct byte_literal *literals, size_t count);

#endif
