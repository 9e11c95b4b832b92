#include "agent/redis/hold.h"

#include <stdlib.h>

#include "wire/memory.h"

struct hold_chunk {
  struct hold_chunk *next;
  size_t size;
  size_t start;    /* of what is not delivered */
  size_t end;      /* behind what is committed */
  size_t commands; /* between the two */
  char bytes[];
};

void hold_init(struct hold *self) {
  *self = (struct hold){0};
}

void hold_free(struct hold *self) {
  for (struct hold_chunk *chunk = self->first, *next; chunk != NULL; chunk = next) {
    next = chunk->next;
    free(chunk);
  }
  hold_init(self);
}

static void add_chunk(struct hold *self, size_t length) {
  size_t size = length < HOLD_CHUNK_SIZE ? HOLD_CHUNK_SIZE : length;
  struct hold_chunk *chunk = memory_allocate(sizeof *chunk + size);
  *chunk = (struct hold_chunk){.size = size};
  if (self->last == NULL)
    self->first = chunk;
  else
    self->last->next = chunk;
  self->last = chunk;
}

char *hold_reserve(struct hold *self, size_t length) {
  if (self->last == NULL || self->last->size - self->last->end < length)
    add_chunk(self, length);
  self->reserved = length;
  return self->last->bytes + self->last->end;
}

void hold_commit(struct hold *self, size_t commands) {
  self->last->end += self->reserved;
  self->last->commands += commands;
  self->bytes += self->reserved;
  self->reserved = 0;
}

bool hold_window(struct hold *self, struct hold_window *window) {
  const struct hold_chunk *chunk = self->first;
  if (chunk == NULL || chunk->start == chunk->end)
    return false;
  if (self->window == 0) {
    self->window = chunk->end - chunk->start;
    self->window_size = chunk->commands;
  }
  *window = (struct hold_window){
      .bytes = chunk->bytes + chunk->start, .length = self->window, .commands = self->window_size};
  return true;
}

void hold_delivered(struct hold *self) {
  struct hold_chunk *chunk = self->first;
  chunk->start += self->window;
  chunk->commands -= self->window_size;
  self->bytes -= self->window;
  self->window = self->window_size = 0;
  if (chunk->start < chunk->end)
    return;
  self->first = chunk->next;
  if (self->first == NULL)
    self->last = NULL;
  free(chunk);
}

bool hold_next_piece(const struct hold *self, struct hold_window *piece) {
  const struct hold_chunk *chunk = self->first;
  if (piece->bytes != NULL) {
    while (piece->bytes != chunk->bytes + chunk->start)
      chunk = chunk->next;
    chunk = chunk->next;
  }
  if (chunk == NULL || chunk->start == chunk->end)
    return false;
  *piece = (struct hold_window){.bytes = chunk->bytes + chunk->start,
                                .length = chunk->end - chunk->start,
                                .commands = chunk->commands};
  return true;
}
