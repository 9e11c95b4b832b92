#ifndef AGENT_FILES_TREE_HEAP_H
#define AGENT_FILES_TREE_HEAP_H

#include <stddef.h>

/*
 * The first few of many things that come in any order: whoever adds takes the last ones out again
 * as soon as there are too many.
 *
 *   struct heap heap = {.compare = by_name};
 *   heap_add(&heap, item)
 *   if (… too many …) free(heap_take_last(&heap))
 *   heap_sort(&heap)      -- from here on heap.items is a sorted array, and no heap any more
 *   heap_release(&heap)
 *
 * Adding and taking cost time in proportion to the logarithm of the count. Items come from malloc;
 * they are the heap's until they are taken.
 */
struct heap {
  int (*compare)(const void *one, const void *other); /* above 0 when `one` comes later */
  void **items;                                       /* the first is the last in order */
  size_t count;
  size_t capacity;
};

/* Frees the items too. */
void heap_release(struct heap *self);

void heap_add(struct heap *self, void *item);

/* What comes last, out of at least one; the caller's to free. */
void *heap_take_last(struct heap *self);

void heap_sort(struct heap *self);

#endif
