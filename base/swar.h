#pragma once

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* SIMD within a register, in plain C: searches and copies text eight bytes at a time. A mask has
   the high bit of each matching byte set. Bytes after the first match may be wrong, so a mask is
   good only for "none" and for swar_first. Masks may be or-ed. */
#define SWAR_SIZE sizeof(uint64_t)
#define SWAR_LOW_BITS UINT64_C(0x0101010101010101)
#define SWAR_HIGH_BITS UINT64_C(0x8080808080808080)

/* Loads eight bytes; the first one becomes the lowest of the word on every machine. */
static inline uint64_t swar_load(const char *text) {
  uint64_t word;
  memcpy(&word, text, sizeof word);
  return le64toh(word);
}

/* Matches bytes below `limit`, which is at most 0x80. */
static inline uint64_t swar_below(uint64_t word, unsigned char limit) {
  return (word - SWAR_LOW_BITS * limit) & ~word & SWAR_HIGH_BITS;
}

static inline uint64_t swar_equal(uint64_t word, unsigned char byte) {
  return swar_below(word ^ (SWAR_LOW_BITS * byte), 1);
}

/* Matches bytes that are not ASCII. */
static inline uint64_t swar_high(uint64_t word) {
  return word & SWAR_HIGH_BITS;
}

/* Returns the index of the first matching byte of a mask that is not 0. */
static inline size_t swar_first(uint64_t hits) {
  return (size_t)__builtin_ctzll(hits) / 8;
}

/* Copies like memcpy(3) and returns the end of the copy. For the length of a line it is faster: the
   `rep movsq` of musl takes longer to start than such a copy takes. */
#define SWAR_COPY_MAX 512
static inline char *swar_copy(char *restrict out, const char *restrict text, size_t length) {
  char *end = out + length;
  if (length > SWAR_COPY_MAX) {
    memcpy(out, text, length);
  } else if (length >= SWAR_SIZE / 2 && length < SWAR_SIZE) {
    memcpy(out, text, SWAR_SIZE / 2);
    memcpy(end - SWAR_SIZE / 2, text + length - SWAR_SIZE / 2, SWAR_SIZE / 2);
  } else if (length < SWAR_SIZE / 2) {
    /* A loop over the bytes would be compiled to a call of memcpy(3). */
    if (length > 0) {
      out[0] = text[0];
      out[length / 2] = text[length / 2];
      end[-1] = text[length - 1];
    }
  } else {
    for (; (size_t)(end - out) > 2 * SWAR_SIZE; out += 2 * SWAR_SIZE, text += 2 * SWAR_SIZE)
      memcpy(out, text, 2 * SWAR_SIZE);
    /* Copy the rest as its first and its last word, which may overlap. */
    ptrdiff_t rest = end - out;
    if (rest > (ptrdiff_t)SWAR_SIZE)
      memcpy(out, text, SWAR_SIZE);
    memcpy(end - SWAR_SIZE, text + rest - SWAR_SIZE, SWAR_SIZE);
  }
  return end;
}
