#include "agent/files/tree/heap.h"

#include <stdlib.h>

#include "base/memory.h"

#define FIRST_CAPACITY 64

void heap_release(struct heap *self) {
  while (self->count > 0)
    free(self->items[--self->count]);
  free(self->items);
  self->items = NULL;
  self->capacity = 0;
}

void heap_add(struct heap *self, void *item) {
  if (self->count == self->capacity) {
    self->capacity = self->capacity > 0 ? 2 * self->capacity : FIRST_CAPACITY;
    self->items = memory_resize(self->items, self->capacity * sizeof *self->items);
  }
  size_t at = self->count++;
  while (at > 0 && self->compare(item, self->items[(at - 1) / 2]) > 0) {
    self->items[at] = self->items[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  self->items[at] = item;
}

void *heap_take_last(struct heap *self) {
  void *last = self->items[0];
  void *item = self->items[--self->count]; /* moves to where it comes after all below it */
  size_t at = 0;
  for (size_t child = 1; child < self->count; child = 2 * at + 1) {
    if (child + 1 < self->count && self->compare(self->items[child + 1], self->items[child]) > 0)
      child++;
    if (self->compare(item, self->items[child]) >= 0)
      break;
    self->items[at] = self->items[child];
    at = child;
  }
  self->items[at] = item;
  return last;
}

void heap_sort(struct heap *self) {
  size_t count = self->count;
  while (self->count > 1) {
    void *last = heap_take_last(self);
    self->items[self->count] = last;
  }
  self->count = count;
}
