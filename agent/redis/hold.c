/*
 * A chunk is a slotted page: records grow from its front, their lengths from its back, so that an
 * acknowledgement, which carries no length, finds the record's end without parsing it.
 */
#include "agent/redis/hold.h"

#include <stdint.h>
#include <stdlib.h>

#include "wire/memory.h"

#define CHUNK_SIZE ((size_t)64 * 1024)

struct hold_chunk {
  struct hold_chunk *next;
  size_t size;
  size_t end;      /* behind the last committed record */
  size_t released; /* behind the last record that may be sent */
  size_t start;    /* of the oldest record not acknowledged */
  size_t records;  /* committed, acknowledged ones too */
  size_t oldest;   /* index of the oldest one not acknowledged */
  _Alignas(uint32_t) char bytes[];
};

static uint32_t *slot(struct hold_chunk *chunk, size_t record) {
  return (uint32_t *)(void *)(chunk->bytes + chunk->size) - 1 - record;
}

static size_t room(const struct hold_chunk *chunk) {
  size_t slots = (chunk->records + 1) * sizeof(uint32_t);
  size_t used = chunk->end + slots;
  return used < chunk->size ? chunk->size - used : 0;
}

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
  /* A size that keeps the slots at the back aligned. */
  size_t size = (length + 2 * sizeof(uint32_t)) & ~(sizeof(uint32_t) - 1);
  size = size < CHUNK_SIZE ? CHUNK_SIZE : size;
  struct hold_chunk *chunk = memory_allocate(sizeof *chunk + size);
  *chunk = (struct hold_chunk){.size = size};
  if (self->last == NULL)
    self->first = self->send = chunk;
  else
    self->last->next = chunk;
  self->last = chunk;
}

char *hold_reserve(struct hold *self, size_t length) {
  if (self->last == NULL || room(self->last) < length)
    add_chunk(self, length);
  self->reserved = length;
  return self->last->bytes + self->last->end;
}

void hold_commit(struct hold *self) {
  struct hold_chunk *chunk = self->last;
  *slot(chunk, chunk->records++) = (uint32_t)self->reserved;
  chunk->end += self->reserved;
  self->bytes += self->reserved;
  self->records++;
  self->reserved = 0;
}

void hold_release_all(struct hold *self) {
  for (struct hold_chunk *chunk = self->send; chunk != NULL; chunk = chunk->next)
    chunk->released = chunk->end;
}

int hold_unsent(const struct hold *self, struct iovec *pieces, int most) {
  int n = 0;
  size_t at = self->send_at;
  for (struct hold_chunk *chunk = self->send; chunk != NULL && n < most; chunk = chunk->next) {
    if (chunk->released > at)
      pieces[n++] = (struct iovec){.iov_base = chunk->bytes + at, .iov_len = chunk->released - at};
    at = 0;
  }
  return n;
}

void hold_sent(struct hold *self, size_t length) {
  while (length > 0) {
    size_t here = self->send->released - self->send_at;
    if (length <= here) {
      self->send_at += length;
      return;
    }
    length -= here;
    self->send = self->send->next;
    self->send_at = 0;
  }
}

const char *hold_oldest(const struct hold *self, size_t *length) {
  if (self->records == 0)
    return NULL;
  struct hold_chunk *chunk = self->first;
  *length = *slot(chunk, chunk->oldest);
  return chunk->bytes + chunk->start;
}

void hold_acknowledged(struct hold *self) {
  struct hold_chunk *chunk = self->first;
  uint32_t length = *slot(chunk, chunk->oldest++);
  chunk->start += length;
  self->bytes -= length;
  self->records--;
  if (chunk->oldest < chunk->records)
    return;
  if (chunk == self->send) {
    self->send = chunk->next;
    self->send_at = 0;
  }
  self->first = chunk->next;
  if (self->first == NULL)
    self->last = NULL;
  free(chunk);
}

void hold_rewind(struct hold *self) {
  self->send = self->first;
  self->send_at = self->first != NULL ? self->first->start : 0;
}
