#include "agent/files/tree/sorted.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define FIRST_CAPACITY 64

void sorted_release(struct sorted *self) {
  while (self->count > 0)
    free(self->items[--self->count]);
  free(self->items);
  self->items = NULL;
  self->capacity = 0;
}

void sorted_add(struct sorted *self, void *item) {
  if (self->count == self->capacity) {
    self->capacity = self->capacity > 0 ? 2 * self->capacity : FIRST_CAPACITY;
    self->items = memory_resize(self->items, self->capacity * sizeof *self->items);
  }
  size_t at = 0, end = self->count;
  while (at < end) {
    size_t middle = at + (end - at) / 2;
    if (self->compare(item, self->items[middle]) > 0)
      at = middle + 1;
    else
      end = middle;
  }
  memmove(self->items + at + 1, self->items + at, (self->count++ - at) * sizeof *self->items);
  self->items[at] = item;
}

const void *sorted_last(const struct sorted *self) {
  return self->items[self->count - 1];
}

void *sorted_take_last(struct sorted *self) {
  return self->items[--self->count];
}
