#pragma once

#include <stddef.h>

/* Searches text for literals, 16 bytes at a time. The text must be followed by MEMSCAN_SLACK
   readable bytes of any value, because blocks are loaded at the offset of any byte of a literal,
   which is below MEMSCAN_LITERAL_MAX. Pure. */
#define MEMSCAN_SLACK 64

/* A vector type of gcc and clang: one instruction each on amd64 and arm64, correct everywhere. */
typedef unsigned char memscan_block __attribute__((vector_size(16)));

/* A byte of the text matches if, or-ed with the fold (0x20 for a letter in either case, else 0), it
   equals the byte of the literal. */
#define MEMSCAN_LITERAL_MAX 32
#define MEMSCAN_LITERALS_MAX 16
struct byte_literal {
  unsigned char bytes[MEMSCAN_LITERAL_MAX], folds[MEMSCAN_LITERAL_MAX];
  size_t length; /* at least 2 */
  /* Two bytes that are compared first: their indexes, and blocks of them. */
  size_t first, second;
  memscan_block first_byte, first_fold, second_byte, second_fold;
};

struct literals {
  struct byte_literal items[MEMSCAN_LITERALS_MAX];
  size_t count;
};

/* Chooses the bytes to compare first: the two that are rarest in source files. */
void literals_prepare(struct literals *self);

/* Returns the offset of the first occurrence of any literal, from `from` on, or `length`. There is
   at least one literal. */
size_t memscan_find(const char *text, size_t length, size_t from, const struct literals *literals);
