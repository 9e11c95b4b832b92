#include "base/arena.h"

#include <stdalign.h>
#include <stdlib.h>

#include "base/memory.h"

/* Each piece is twice as large as the one before, between these. */
#define PIECE_MIN ((size_t)256)
#define PIECE_MAX ((size_t)1024 * 1024)

struct arena_piece {
  struct arena_piece *older;
  size_t size;
  alignas(max_align_t) char bytes[];
};

static void add_piece(struct arena *self, size_t least) {
  size_t size = self->newest != NULL ? self->newest->size * 2 : PIECE_MIN;
  if (size > PIECE_MAX)
    size = PIECE_MAX;
  if (size < least)
    size = least;
  struct arena_piece *piece = memory_allocate(sizeof *piece + size);
  piece->older = self->newest;
  piece->size = size;
  *self = (struct arena){.newest = piece, .at = piece->bytes, .capacity = size};
}

void *arena_allocate(struct arena *self, size_t size) {
  size_t aligned = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
  if (self->capacity < aligned)
    add_piece(self, aligned);
  void *memory = self->at;
  self->at += aligned;
  self->capacity -= aligned;
  return memory;
}

static void free_pieces(struct arena_piece *piece) {
  for (struct arena_piece *older; piece != NULL; piece = older) {
    older = piece->older;
    free(piece);
  }
}

/* The newest piece is at least as large as all others. */
void arena_clear(struct arena *self) {
  if (self->newest == NULL)
    return;
  free_pieces(self->newest->older);
  self->newest->older = NULL;
  self->at = self->newest->bytes;
  self->capacity = self->newest->size;
}

void arena_release(struct arena *self) {
  free_pieces(self->newest);
  *self = (struct arena){0};
}

size_t arena_size(const struct arena *self) {
  size_t size = 0;
  for (const struct arena_piece *piece = self->newest; piece != NULL; piece = piece->older)
    size += sizeof *piece + piece->size;
  return size;
}
