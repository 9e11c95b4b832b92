#include "agent/frontends/http/event_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

/* The sizes of a log's first block and of the others: most steps have few events. */
enum { FIRST_BLOCK_SIZE = 2048, BLOCK_SIZE = 64 * 1024 };

struct event_block {
  struct list_node in_store, in_log;
  struct event_log *log;
  uint64_t count; /* of events that are held */
  size_t start;   /* of the first of them */
  size_t length, capacity;
  char bytes[];
};

#define BLOCK_OF_STORE(NODE) LIST_ELEMENT(NODE, struct event_block, in_store)
#define BLOCK_OF_LOG(NODE) LIST_ELEMENT(NODE, struct event_block, in_log)

void event_log_init(struct event_log *self, struct event_store *store) {
  *self = (struct event_log){.store = store, .first_seq = 1};
}

/* --- dropping --------------------------------------------------------------------------------- */

/* A cursor at its end continues with the block that follows. */
static void free_block(struct event_block *block) {
  struct event_log *log = block->log;
  LIST_FOR_EACH (struct event_cursor, cursor, &log->cursors, node)
    if (cursor->block == block)
      cursor->block = NULL;
  log->store->bytes -= block->length - block->start;
  log->store->count -= block->count;
  list_remove(&log->store->blocks, &block->in_store);
  list_remove(&log->blocks, &block->in_log);
  free(block);
}

void event_log_release(struct event_log *self) {
  CHECK(self->cursors.first == NULL);
  LIST_FOR_EACH (struct event_block, block, &self->blocks, in_log)
    free_block(block);
}

/* Where the oldest event of the block ends. */
static size_t first_end(const struct event_block *block) {
  const char *first = block->bytes + block->start;
  const char *newline = memchr(first, '\n', block->length - block->start);
  CHECK(newline != NULL);
  return (size_t)(newline + 1 - block->bytes);
}

/* Whether a cursor has yet to read a part of the block's first `end` bytes. Its block is the oldest
   of its log. */
static bool is_needed(const struct event_block *block, size_t end) {
  LIST_FOR_EACH (struct event_cursor, cursor, &block->log->cursors, node)
    if (cursor->block == NULL || (cursor->block == block && cursor->offset < end))
      return true;
  return false;
}

static bool is_full(const struct event_store *self) {
  return self->bytes >= self->bytes_max || (self->count_max > 0 && self->count >= self->count_max);
}

bool event_store_is_blocked(const struct event_store *self) {
  const struct event_block *oldest = BLOCK_OF_STORE(self->blocks.first);
  return is_full(self) && oldest != NULL && is_needed(oldest, first_end(oldest));
}

static bool has_surplus(const struct event_store *self) {
  return self->bytes > self->bytes_max || (self->count_max > 0 && self->count > self->count_max);
}

/* Drops the oldest event of the oldest block. Returns false if a cursor needs it. */
static bool drop_event(struct event_store *self, struct event_block *block) {
  const size_t end = first_end(block);
  if (is_needed(block, end))
    return false;
  self->bytes -= end - block->start;
  self->count--;
  block->start = end;
  block->count--;
  block->log->first_seq++;
  return true;
}

static void drop_surplus(struct event_store *self) {
  LIST_FOR_EACH (struct event_block, block, &self->blocks, in_store) {
    while (block->count > 0 && has_surplus(self) && drop_event(self, block))
      continue;
    if (block->count > 0)
      return;
    free_block(block);
  }
}

/* --- appending -------------------------------------------------------------------------------- */

static struct event_block *add_block(struct event_log *log, size_t length) {
  size_t capacity = log->blocks.first == NULL ? FIRST_BLOCK_SIZE : BLOCK_SIZE;
  if (capacity < length)
    capacity = length;
  struct event_block *block = memory_allocate(sizeof *block + capacity);
  *block = (struct event_block){.log = log, .capacity = capacity};
  list_append(&log->store->blocks, &block->in_store);
  list_append(&log->blocks, &block->in_log);
  return block;
}

void event_log_append(struct event_log *self, const struct step_event *event) {
  struct event_store *store = self->store;
  const size_t length = step_event_length(event) + 1;
  struct event_block *block = BLOCK_OF_LOG(self->blocks.last);
  if (block == NULL || block->capacity - block->length < length)
    block = add_block(self, length);
  *step_event_write(event, block->bytes + block->length) = '\n';
  block->length += length;
  block->count++;
  store->bytes += length;
  store->count++;
  self->last_seq++;
  drop_surplus(store);
}

/* --- cursors ---------------------------------------------------------------------------------- */

/* Skips `count` events of the block. */
static size_t offset_after(const struct event_block *block, uint64_t count) {
  const char *at = block->bytes + block->start;
  while (count-- > 0)
    at = (const char *)memchr(at, '\n', block->length - (size_t)(at - block->bytes)) + 1;
  return (size_t)(at - block->bytes);
}

void event_cursor_open(struct event_cursor *self, struct event_log *log, uint64_t after) {
  CHECK(after <= log->last_seq);
  const uint64_t first = after + 1 > log->first_seq ? after + 1 : log->first_seq;
  uint64_t skipped = first - log->first_seq;
  *self = (struct event_cursor){.log = log, .seq = first};
  LIST_FOR_EACH (struct event_block, block, &log->blocks, in_log) {
    self->block = block;
    if (skipped < block->count || block->in_log.next == NULL)
      break;
    skipped -= block->count;
  }
  if (self->block != NULL)
    self->offset = offset_after(self->block, skipped);
  list_append(&log->cursors, &self->node);
}

void event_cursor_close(struct event_cursor *self) {
  if (self->log != NULL)
    list_remove(&self->log->cursors, &self->node);
  self->log = NULL;
}

const char *event_cursor_bytes(struct event_cursor *self, size_t *length) {
  *length = 0;
  if (self->block == NULL) {
    self->block = BLOCK_OF_LOG(self->log->blocks.first);
    self->offset = self->block != NULL ? self->block->start : 0;
  }
  if (self->block != NULL && self->offset == self->block->length &&
      self->block->in_log.next != NULL) {
    self->block = BLOCK_OF_LOG(self->block->in_log.next);
    self->offset = self->block->start;
  }
  if (self->block == NULL)
    return NULL;
  *length = self->block->length - self->offset;
  return self->block->bytes + self->offset;
}

void event_cursor_advance(struct event_cursor *self, size_t length) {
  self->offset += length;
}
