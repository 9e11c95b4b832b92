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

/* Returns the rank of a byte in source files, from common to rare. */
static size_t rareness(unsigned char byte) {
  static const char common[] = " etaonirslcdupmhfg.,()_\tb;y-v=w\"*/kx:0>{}I1'CTSEA2PLR<NDMFzqOBj";
  const char *at = byte == 0 ? NULL : strchr(common, byte);
  return at == NULL ? sizeof common : (size_t)(at - common);
}

static void choose_bytes(struct byte_literal *self) {
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

void literals_prepare(struct literals *self) {
  for (size_t i = 0; i < self->count; i++)
    choose_bytes(&self->items[i]);
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

static void probes_init(struct probe *probes, const struct literals *literals) {
  for (size_t i = 0; i < literals->count; i++) {
    const struct byte_literal *one = &literals->items[i];
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

size_t memscan_find(const char *text, size_t length, size_t from, const struct literals *literals) {
  struct probe probes[MEMSCAN_LITERALS_MAX];
  probes_init(probes, literals);
  for (size_t at = from; at < length; at += BLOCK) {
    block found = candidates(text + at, probes, literals->count);
    if (!any(found))
      continue;
    for (size_t i = 0; i < BLOCK && at + i < length; i++)
      for (size_t k = 0; k < literals->count && found[i] != 0; k++)
        if (is_at(&literals->items[k], text + at + i, length - at - i))
          return at + i;
  }
  return length;
}
