#include "agent/files/grep/memscan.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Vector types of gcc and clang: one instruction each on amd64 and arm64, correct everywhere. */
#define BLOCK ((size_t)16)
typedef unsigned char block __attribute__((vector_size(16)));
typedef uint64_t halves __attribute__((vector_size(16)));

static block load(const char *text) {
  block bytes;
  memcpy(&bytes, text, sizeof bytes);
  return bytes;
}

static block all(unsigned char byte) {
  return (block){0} + byte;
}

static bool any(block mask) {
  halves half = (halves)mask;
  return (half[0] | half[1]) != 0;
}

/* The last block overlaps the one before it, which does not change or-ed traits. */
unsigned memscan_traits(const char *text, size_t length) {
  unsigned traits = 0;
  if (length < BLOCK) {
    for (size_t at = 0; at < length; at++)
      traits |= (text[at] == 0 ? BYTE_NUL : 0U) | (text[at] == '\r' ? BYTE_RETURN : 0U) |
                ((unsigned char)text[at] >= 0x80 ? BYTE_HIGH : 0U);
    return traits;
  }
  block nul = {0};
  block carriage = {0};
  block high = {0};
  for (size_t at = 0;; at += BLOCK) {
    block bytes = load(text + (at + BLOCK <= length ? at : length - BLOCK));
    nul |= (block)(bytes == 0);
    carriage |= (block)(bytes == all('\r'));
    high |= bytes;
    if (at + BLOCK >= length)
      break;
  }
  return (any(nul) ? BYTE_NUL : 0U) | (any(carriage) ? BYTE_RETURN : 0U) |
         (any(high & all(0x80)) ? BYTE_HIGH : 0U);
}

/* Returns the index of the first byte that is not 0, in a mask that has one. Both supported
   architectures are little-endian. */
static size_t first_in(block mask) {
  halves half = (halves)mask;
  return (size_t)(half[0] != 0 ? __builtin_ctzll(half[0]) / 8 : 8 + __builtin_ctzll(half[1]) / 8);
}

size_t memscan_first(const char *text, size_t length, char byte) {
  for (size_t at = 0; at < length; at += BLOCK) {
    block equal = (block)(load(text + at) == all((unsigned char)byte));
    if (any(equal)) {
      at += first_in(equal);
      return at < length ? at : length;
    }
  }
  return length;
}

size_t memscan_count(const char *text, size_t length, char byte) {
  size_t count = 0, at = 0;
  while (length - at >= BLOCK) {
    block counts = {0}; /* a lane holds up to 255 */
    for (int i = 0; i < 255 && length - at >= BLOCK; i++, at += BLOCK)
      counts -= (block)(load(text + at) == all((unsigned char)byte));
    for (size_t i = 0; i < BLOCK; i++)
      count += counts[i];
  }
  for (; at < length; at++)
    count += text[at] == byte;
  return count;
}

/* Returns the rank of a byte in source files, from common to rare. */
static size_t rareness(unsigned char byte) {
  static const char common[] = " etaonirslcdupmhfg.,()_\tb;y-v=w\"*/kx:0>{}I1'CTSEA2PLR<NDMFzqOBj";
  const char *at = byte == 0 ? NULL : strchr(common, byte);
  return at == NULL ? sizeof common : (size_t)(at - common);
}

void byte_literal_choose(struct byte_literal *self) {
  self->first = 0;
  self->second = 1;
  for (size_t i = 0; i < self->length; i++)
    if (rareness(self->bytes[i]) > rareness(self->bytes[self->first]))
      self->first = i;
  if (self->first == self->second)
    self->second = 0;
  for (size_t i = 0; i < self->length; i++)
    if (i != self->first && rareness(self->bytes[i]) > rareness(self->bytes[self->second]))
      self->second = i;
}

static bool is_at(const struct byte_literal *literal, const char *text, size_t length) {
  if (literal->length > length)
    return false;
  for (size_t i = 0; i < literal->length; i++)
    if (((unsigned char)text[i] | literal->folds[i]) != literal->bytes[i])
      return false;
  return true;
}

/* A literal, prepared for the comparison with blocks. */
struct probe {
  size_t first, second;
  block first_byte, first_fold, second_byte, second_fold;
};

static void probes_init(struct probe *probes, const struct byte_literal *literals, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const struct byte_literal *one = &literals[i];
    probes[i] = (struct probe){.first = one->first,
                               .second = one->second,
                               .first_byte = all(one->bytes[one->first]),
                               .first_fold = all(one->folds[one->first]),
                               .second_byte = all(one->bytes[one->second]),
                               .second_fold = all(one->folds[one->second])};
  }
}

/* Returns a mask of the offsets in this block at which one of the literals may begin. */
static block candidates(const char *text, const struct probe *probes, size_t count) {
  block found = {0};
  for (size_t i = 0; i < count; i++) {
    const struct probe *one = &probes[i];
    found |= (block)((load(text + one->first) | one->first_fold) == one->first_byte) &
             (block)((load(text + one->second) | one->second_fold) == one->second_byte);
  }
  return found;
}

size_t memscan_find(const char *text, size_t length, size_t from,
                    const struct byte_literal *literals, size_t count) {
  struct probe probes[MEMSCAN_LITERALS_MAX];
  probes_init(probes, literals, count);
  for (size_t at = from; at < length; at += BLOCK) {
    block found = candidates(text + at, probes, count);
    if (!any(found))
      continue;
    for (size_t i = 0; i < BLOCK && at + i < length; i++)
      for (size_t k = 0; k < count && found[i] != 0; k++)
        if (is_at(&literals[k], text + at + i, length - at - i))
          return at + i;
  }
  return length;
}
