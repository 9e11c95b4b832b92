#ifndef AGENT_FILES_TREE_SORTED_H
#define AGENT_FILES_TREE_SORTED_H

#include <stddef.h>

/* Items in order, of which the caller takes the last one out when there are too many: the first few of
   many. To add one takes logarithmic time, and moves those behind it. Items come from malloc; they are
   owned until they are taken. */
struct sorted {
  int (*compare)(const void *one, const void *other); /* > 0 when `one` comes later */
  void **items;
  size_t count, capacity;
};

/* Frees the items too. */
void sorted_release(struct sorted *self);

void sorted_add(struct sorted *self, void *item);

/* There is at least one. The caller frees what it takes. */
const void *sorted_last(const struct sorted *self);
void *sorted_take_last(struct sorted *self);

#endif
