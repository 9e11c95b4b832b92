#include "agent/frontends/redis/delivery/send_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/frontends/redis/connection/command.h"
#include "base/check.h"
#include "base/memory.h"

struct send_queue_chunk {
  struct send_queue_chunk *next;
  size_t size;
  size_t start;    /* the offset of the first byte that is not delivered */
  size_t end;      /* the offset after the last byte that is committed */
  size_t commands; /* between `start` and `end` */
  char bytes[];
};

static_assert(sizeof(struct send_queue_chunk) <= 40,
              "SEND_QUEUE_CHUNK_SIZE leaves 40 bytes for the header");

static void free_chunks(struct send_queue_chunk *chunk) {
  for (struct send_queue_chunk *next; chunk != NULL; chunk = next) {
    next = chunk->next;
    free(chunk);
  }
}

void send_queue_free(struct send_queue *self) {
  free_chunks(self->first);
  free_chunks(self->spares);
  *self = (struct send_queue){0};
}

static struct send_queue_chunk *new_chunk(struct send_queue *self, size_t length) {
  size_t size = length > SEND_QUEUE_CHUNK_SIZE ? length : SEND_QUEUE_CHUNK_SIZE;
  struct send_queue_chunk *chunk = self->spares;
  if (length > SEND_QUEUE_CHUNK_SIZE || chunk == NULL) {
    chunk = memory_allocate(sizeof *chunk + size);
  } else {
    self->spares = chunk->next;
    self->spare_count--;
  }
  *chunk = (struct send_queue_chunk){.size = size};
  return chunk;
}

static void release_first(struct send_queue *self) {
  struct send_queue_chunk *chunk = self->first;
  self->first = chunk->next;
  if (chunk->size != SEND_QUEUE_CHUNK_SIZE || self->spare_count == BATCH_PIECES) {
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

char *send_queue_reserve(struct send_queue *self, size_t length) {
  CHECK(length > 0 && self->reserved == 0);
  if (self->last == NULL || self->last->size - self->last->end < length) {
    struct send_queue_chunk *chunk = new_chunk(self, length);
    if (self->last == NULL)
      self->first = chunk;
    else
      self->last->next = chunk;
    self->last = chunk;
  }
  self->reserved = length;
  return self->last->bytes + self->last->end;
}

void send_queue_commit(struct send_queue *self, size_t commands) {
  CHECK(self->reserved > 0);
  self->last->end += self->reserved;
  self->last->commands += commands;
  self->bytes += self->reserved;
  self->reserved = 0;
}

/* A batch consists of whole chunks. A chunk that is larger than a batch is a batch by itself. */
static struct batch make_batch(const struct send_queue *self) {
  struct batch batch = {0};
  for (struct send_queue_chunk *chunk = self->first; chunk != NULL && batch.count < BATCH_PIECES;
       chunk = chunk->next) {
    size_t length = chunk->end - chunk->start;
    if (batch.count > 0 && batch.length + length > BATCH_PIECES * SEND_QUEUE_CHUNK_SIZE)
      break;
    batch.commands += chunk->commands;
    batch.length += length;
    if (length > 0)
      batch.pieces[batch.count++] =
          (struct iovec){.iov_base = chunk->bytes + chunk->start, .iov_len = length};
  }
  return batch;
}

const struct batch *send_queue_batch(struct send_queue *self) {
  if (self->batch.count == 0)
    self->batch = make_batch(self);
  return self->batch.count > 0 ? &self->batch : NULL;
}

void batch_find(const struct batch *self, size_t index, struct command_word *words, size_t max) {
  size_t read = 0;
  for (int i = 0; i < self->count; i++) {
    const char *at = self->pieces[i].iov_base, *end = at + self->pieces[i].iov_len;
    while (read <= index && command_read(&at, end, words, max))
      read++;
  }
}

/* Moves the commands that stay over those that are left out. */
static void compact(struct send_queue *self, struct send_queue_chunk *chunk, struct iovec *piece,
                    send_queue_predicate *is_left_out, const void *owner) {
  char *out = piece->iov_base, *end = out + piece->iov_len;
  struct command_word words[3];
  for (const char *at = out, *from = at; command_read(&at, end, words, 3); from = at) {
    const size_t length = (size_t)(at - from);
    const bool stays = !is_left_out(owner, words);
    chunk->commands -= !stays;
    self->batch.commands -= !stays;
    if (stays)
      out = (char *)memmove(out, from, length) + length;
  }
  const size_t removed = (size_t)(end - out);
  memmove(out, end, (size_t)(chunk->bytes + chunk->end - end));
  chunk->end -= removed;
  piece->iov_len -= removed;
  self->batch.length -= removed;
  self->batch.left_out += removed;
}

void send_queue_leave_out(struct send_queue *self, send_queue_predicate *is_left_out,
                          const void *owner) {
  struct send_queue_chunk *chunk = self->first;
  for (int i = 0; i < self->batch.count; i++, chunk = chunk->next)
    compact(self, chunk, &self->batch.pieces[i], is_left_out, owner);
}

void send_queue_remove_batch(struct send_queue *self) {
  size_t commands = self->batch.commands;
  for (int i = 0; i < self->batch.count; i++) {
    struct send_queue_chunk *chunk = self->first;
    size_t removed = commands < chunk->commands ? commands : chunk->commands;
    chunk->start += self->batch.pieces[i].iov_len;
    chunk->commands -= removed;
    commands -= removed;
    if (chunk->start == chunk->end)
      release_first(self);
  }
  self->bytes -= self->batch.length + self->batch.left_out;
  self->delivered += self->batch.length + self->batch.left_out;
  self->batch = (struct batch){0};
}

bool send_queue_piece(const struct send_queue *self, size_t number, struct iovec *piece) {
  struct send_queue_chunk *chunk = self->first;
  for (; chunk != NULL && number > 0; number--)
    chunk = chunk->next;
  if (chunk != NULL)
    *piece = (struct iovec){.iov_base = chunk->bytes + chunk->start,
                            .iov_len = chunk->end - chunk->start};
  return chunk != NULL;
}
