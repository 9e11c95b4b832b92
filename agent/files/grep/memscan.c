#include "agent/files/grep/memscan.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef memscan_block block;
typedef uint64_t halves __attribute__((vector_size(sizeof(block))));

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

static void prepare(struct byte_literal *self) {
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
  self->first_byte = all(self->bytes[self->first]);
  self->first_fold = all(self->folds[self->first]);
  self->second_byte = all(self->bytes[self->second]);
  self->second_fold = all(self->folds[self->second]);
}

void literals_prepare(struct literals *self) {
  for (size_t i = 0; i < self->count; i++)
    prepare(&self->items[i]);
}

static bool is_at(const struct byte_literal *literal, const char *text, size_t length) {
  if (literal->length > length)
    return false;
  for (size_t i = 0; i < literal->length; i++)
    if (((unsigned char)text[i] | literal->folds[i]) != literal->bytes[i])
      return false;
  return true;
}

/* Returns a mask of the offsets in this block at which one of the literals may begin. */
static block candidates(const char *text, const struct literals *literals) {
  block found = {0};
  for (size_t i = 0; i < literals->count; i++) {
    const struct byte_literal *one = &literals->items[i];
    found |= (block)((load(text + one->first) | one->first_fold) == one->first_byte) &
             (block)((load(text + one->second) | one->second_fold) == one->second_byte);
  }
  return found;
}

size_t memscan_find(const char *text, size_t length, size_t from, const struct literals *literals) {
  for (size_t at = from; at < length; at += sizeof(block)) {
    block found = candidates(text + at, literals);
    if (!any(found))
      continue;
    for (size_t i = 0; i < sizeof(block) && at + i < length; i++)
      for (size_t k = 0; k < literals->count && found[i] != 0; k++)
        if (is_at(&literals->items[k], text + at + i, length - at - i))
          return at + i;
  }
  return length;
}
