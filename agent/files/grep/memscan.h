#ifndef AGENT_FILES_GREP_MEMSCAN_H
#define AGENT_FILES_GREP_MEMSCAN_H

#include <stddef.h>

/* Searches text for bytes and literals, 16 bytes at a time, where musl takes words or bytes. The
   text must be followed by MEMSCAN_SLACK readable bytes of any value, because blocks are loaded at
   the offset of any byte of a literal, which is below MEMSCAN_LITERAL_MAX. Pure. */
#define MEMSCAN_SLACK 64

enum byte_trait {
  BYTE_NUL = 1,
  BYTE_RETURN = 2, /* "\r" */
  BYTE_HIGH = 4    /* not ASCII */
};

/* Returns the traits of all bytes, or-ed. */
unsigned memscan_traits(const char *text, size_t length);

/* Returns the offset of the first such byte, or `length`. */
size_t memscan_first(const char *text, size_t length, char byte);

/* Returns the number of such bytes. */
size_t memscan_count(const char *text, size_t length, char byte);

/* A literal, two bytes of which are compared first. A byte of the text matches if, or-ed with the
   fold (0x20 for a letter in either case, else 0), it equals the byte of the literal. */
#define MEMSCAN_LITERAL_MAX 32
#define MEMSCAN_LITERALS_MAX 16
struct byte_literal {
  unsigned char bytes[MEMSCAN_LITERAL_MAX], folds[MEMSCAN_LITERAL_MAX];
  size_t length;        /* at least 2 */
  size_t first, second; /* indexes of the bytes that are compared first */
};

/* Sets first and second to the two bytes that are rarest in source files. */
void byte_literal_choose(struct byte_literal *self);

/* Returns the offset of the first occurrence of any literal, from `from` on, or `length`. `count`
   is 1 to MEMSCAN_LITERALS_MAX. */
size_t memscan_find(const char *text, size_t length, size_t from,
                    const struct byte_literal *literals, size_t count);

#endif
