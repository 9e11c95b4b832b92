#include "agent/redis/hold.h"

#include <stdlib.h>

#include "base/memory.h"

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

static void free_chunks(struct hold_chunk *chunk) {
  for (struct hold_chunk *next; chunk != NULL; chunk = next) {
    next = chunk->next;
    free(chunk);
  }
}

void hold_free(struct hold *self) {
  free_chunks(self->first);
  free_chunks(self->spares);
  hold_init(self);
}

static struct hold_chunk *new_chunk(struct hold *self, size_t length) {
  size_t size = length > HOLD_CHUNK_SIZE ? length : HOLD_CHUNK_SIZE;
  struct hold_chunk *chunk = self->spares;
  if (length > HOLD_CHUNK_SIZE || chunk == NULL) {
    chunk = memory_allocate(sizeof *chunk + size);
  } else {
    self->spares = chunk->next;
    self->spare_count--;
  }
  *chunk = (struct hold_chunk){.size = size};
  return chunk;
}

static void drop_first(struct hold *self) {
  struct hold_chunk *chunk = self->first;
  self->first = chunk->next;
  if (chunk->size != HOLD_CHUNK_SIZE || self->spare_count == HOLD_WINDOW_PIECES) {
    free(chunk);
  } else {
    chunk->next = self->spares;
    self->spares = chunk;
    self->spare_count++;
  }
  if (self->first != NULL)
    return;
  self->last = NULL;
  if (self->spares != NULL) {
    free_chunks(self->spares->next);
    self->spares->next = NULL;
    self->spare_count = 1;
  }
}

char *hold_reserve(struct hold *self, size_t length) {
  if (self->last == NULL || self->last->size - self->last->end < length) {
    struct hold_chunk *chunk = new_chunk(self, length);
    if (self->last == NULL)
      self->first = chunk;
    else
      self->last->next = chunk;
    self->last = chunk;
  }
  self->reserved = length;
  return self->last->bytes + self->last->end;
}

void hold_commit(struct hold *self, size_t commands) {
  self->last->end += self->reserved;
  self->last->commands += commands;
  self->bytes += self->reserved;
  self->reserved = 0;
}

/* From behind these bytes and commands on, to the end of a chunk. A piece that is larger than a
   window is one by itself. */
static struct hold_window take_window(const struct hold *self, size_t bytes, size_t commands) {
  struct hold_window window = {0};
  for (struct hold_chunk *chunk = self->first; chunk != NULL && window.count < HOLD_WINDOW_PIECES;
       chunk = chunk->next) {
    size_t length = chunk->end - chunk->start;
    size_t skip = bytes < length ? bytes : length;
    bytes -= skip;
    length -= skip;
    if (window.count > 0 && window.length + length > HOLD_WINDOW_PIECES * HOLD_CHUNK_SIZE)
      break;
    window.commands += chunk->commands;
    window.length += length;
    if (length > 0)
      window.pieces[window.count++] =
          (struct iovec){.iov_base = chunk->bytes + chunk->start + skip, .iov_len = length};
  }
  window.commands -= commands;
  return window;
}

const struct hold_window *hold_window(struct hold *self) {
  if (self->window.count == 0)
    self->window = take_window(self, 0, 0);
  return self->window.count > 0 ? &self->window : NULL;
}

const struct hold_window *hold_window_behind(struct hold *self) {
  const struct hold_window *first = &self->window;
  if (self->behind.count == 0 &&
      self->bytes - first->length >= HOLD_WINDOW_PIECES * HOLD_CHUNK_SIZE)
    self->behind = take_window(self, first->length, first->commands);
  return self->behind.count > 0 ? &self->behind : NULL;
}

void hold_delivered(struct hold *self) {
  size_t commands = self->window.commands;
  for (int i = 0; i < self->window.count; i++) {
    struct hold_chunk *chunk = self->first;
    size_t gone = commands < chunk->commands ? commands : chunk->commands;
    chunk->start += self->window.pieces[i].iov_len;
    chunk->commands -= gone;
    commands -= gone;
    if (chunk->start == chunk->end)
      drop_first(self);
  }
  self->bytes -= self->window.length;
  self->gone += self->window.length;
  self->window = self->behind;
  self->behind = (struct hold_window){0};
}

bool hold_next_piece(const struct hold *self, struct hold_piece *piece) {
  const struct hold_chunk *chunk = self->first;
  if (piece->bytes != NULL) {
    while (piece->bytes != chunk->bytes + chunk->start)
      chunk = chunk->next;
    chunk = chunk->next;
  }
  if (chunk == NULL || chunk->start == chunk->end)
    return false;
  *piece = (struct hold_piece){.bytes = chunk->bytes + chunk->start,
                               .length = chunk->end - chunk->start};
  return true;
}
