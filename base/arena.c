#include "base/arena.h"

#include <stdalign.h>
#include <stdlib.h>

#include "base/memory.h"

/* Each block is twice as large as the one before, between these. */
#define BLOCK_MIN ((size_t)256)
#define BLOCK_MAX ((size_t)1024 * 1024)

struct arena_block {
  struct arena_block *older;
  size_t size;
  alignas(max_align_t) char bytes[];
};

static void add_block(struct arena *self, size_t needed) {
  size_t size = self->newest != NULL ? self->newest->size * 2 : BLOCK_MIN;
  if (size > BLOCK_MAX)
    size = BLOCK_MAX;
  if (size < needed)
    size = needed;
  struct arena_block *block = memory_allocate(sizeof *block + size);
  block->older = self->newest;
  block->size = size;
  *self = (struct arena){.newest = block, .at = block->bytes, .capacity = size};
}

void *arena_allocate(struct arena *self, size_t size) {
  size_t aligned = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
  if (self->capacity < aligned)
    add_block(self, aligned);
  void *memory = self->at;
  self->at += aligned;
  self->capacity -= aligned;
  return memory;
}

static void free_blocks(struct arena_block *block) {
  for (struct arena_block *older; block != NULL; block = older) {
    older = block->older;
    free(block);
  }
}

/* The newest block is at least as large as all others. */
void arena_clear(struct arena *self) {
  if (self->newest == NULL)
    return;
  free_blocks(self->newest->older);
  self->newest->older = NULL;
  self->at = self->newest->bytes;
  self->capacity = self->newest->size;
}

void arena_release(struct arena *self) {
  free_blocks(self->newest);
  *self = (struct arena){0};
}
