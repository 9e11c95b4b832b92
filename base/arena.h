#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

/* Memory for many small things that are released together. All zeros is an empty one, which holds
   no memory. Aborts when out of memory. */
struct arena {
  struct arena_piece *newest;
  char *at;        /* where the room of the newest piece begins */
  size_t capacity; /* in bytes */
};

/* `size` bytes for any type, of no certain content, until arena_release. */
void *arena_allocate(struct arena *self, size_t size);

/* The bytes that it holds, with the room. */
size_t arena_size(const struct arena *self);

/* Frees what was allocated; most of the memory stays for what is allocated next. */
void arena_clear(struct arena *self);

/* Frees all of it; the arena is empty afterwards. */
void arena_release(struct arena *self);

#endif
