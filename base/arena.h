#pragma once

#include <stddef.h>

/* Memory for many small objects that are released together. An arena that is all zeros is empty and
   holds no memory. Running out of memory ends the program (memory.h). */
struct arena {
  struct arena_block *newest;
  char *at;        /* the free part of the newest block */
  size_t capacity; /* its size in bytes */
};

/* Returns `size` uninitialized bytes, aligned for any type and valid until the arena is cleared or
   released. */
void *arena_allocate(struct arena *self, size_t size);

/* Frees all objects but keeps the largest block for the next ones. */
void arena_clear(struct arena *self);

/* Frees all objects and all memory. */
void arena_release(struct arena *self);
