#ifndef AGENT_FILES_TREE_HEAP_H
#define AGENT_FILES_TREE_HEAP_H

#include <stddef.h>

/*
 * A binary heap that keeps the first few of many items in order: the caller adds each item and
 * takes the last one out again when there are too many.
 *
 *   struct heap heap = {.compare = by_name};
 *   heap_add(&heap, item)
 *   if (… too many …) free(heap_take_last(&heap))
 *   heap_sort(&heap)      -- heap.items is then a sorted array, and no heap any more
 *   heap_release(&heap)
 *
 * Adding and taking take logarithmic time. Items come from malloc; the heap owns them until they
 * are taken.
 */
struct heap {
  int (*compare)(const void *one, const void *other); /* > 0 when `one` comes later */
  void **items;                                       /* items[0] is the last in order */
  size_t count, capacity;
};

/* Frees the items too. */
void heap_release(struct heap *self);

void heap_add(struct heap *self, void *item);

/* Takes out the last item; there is at least one. The caller frees it. */
void *heap_take_last(struct heap *self);

void heap_sort(struct heap *self);

#endif
