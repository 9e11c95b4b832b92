#include "agent/engine/lines.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/swar.h"
#include "base/utf8.h"

void line_splitter_init(struct line_splitter *self, size_t piece_max) {
  CHECK(piece_max >= LINE_BYTES_MIN && piece_max <= LINE_BYTES_MAX);
  *self = (struct line_splitter){.piece_max = piece_max, .read = LINE_SPLITTER_FIRST_READ};
}

void line_splitter_release(struct line_splitter *self) {
  free(self->buffer);
  line_splitter_init(self, self->piece_max);
}

void line_splitter_set_raw(struct line_splitter *self) {
  self->piece_max = LINE_RAW_BYTES;
  self->raw = true;
}

/* Moves the rest to the front. A byte is moved at most once, because its line begins at 0 then. */
static void pack(struct line_splitter *self) {
  if (self->end > self->start)
    memmove(self->buffer, self->buffer + self->start, self->end - self->start);
  self->end -= self->start;
  self->scanned = self->scanned > self->start ? self->scanned - self->start : 0;
  self->start = 0;
}

/* If more bytes are needed, at most one piece is in the buffer, so the growth is bounded. */
static void grow(struct line_splitter *self, size_t free_bytes) {
  const size_t most = self->piece_max + free_bytes - self->read + LINE_SPLITTER_READ;
  size_t capacity = self->capacity > 0 ? 2 * self->capacity : free_bytes;
  if (capacity < self->end + free_bytes)
    capacity = self->end + free_bytes;
  self->capacity = capacity < most ? capacity : most;
  self->buffer = memory_resize(self->buffer, self->capacity);
}

char *line_splitter_space(struct line_splitter *self, size_t before, size_t *size) {
  const size_t free_bytes = before + self->read;
  if (self->capacity - self->end < free_bytes && self->start > 0)
    pack(self);
  if (self->capacity - self->end < free_bytes)
    grow(self, free_bytes);
  CHECK(self->capacity - self->end >= free_bytes); /* the rest is at most one piece */
  *size = self->capacity - self->end - before;
  return self->buffer + self->end;
}

void line_splitter_filled(struct line_splitter *self, size_t length, bool was_full) {
  CHECK(length <= self->capacity - self->end);
  self->end += length;
  if (was_full)
    self->read = self->read < LINE_SPLITTER_READ / 8 ? 8 * self->read : LINE_SPLITTER_READ;
}

void line_splitter_end(struct line_splitter *self) {
  self->ended = true;
}

/* Returns the index of the first "\n" or "\r" in text[from..to), or `to`. */
static size_t find_line_end(const char *text, size_t from, size_t to) {
  for (; to - from >= SWAR_SIZE; from += SWAR_SIZE) {
    uint64_t word = swar_load(text + from);
    uint64_t hits = swar_equal(word, '\n') | swar_equal(word, '\r');
    if (hits != 0)
      return from + swar_first(hits);
  }
  while (from < to && text[from] != '\n' && text[from] != '\r')
    from++;
  return from;
}

/* Frees the memory that only a long line needed. No line is in use. */
static void shrink(struct line_splitter *self) {
  if (self->capacity <= LINE_SPLITTER_KEPT || self->end - self->start > LINE_SPLITTER_KEPT / 2)
    return;
  pack(self);
  self->capacity = LINE_SPLITTER_KEPT;
  self->buffer = memory_resize(self->buffer, self->capacity);
}

/* Returns the next `length` bytes as a line. */
static bool split_off(struct line_splitter *self, struct line *line, size_t length, bool partial) {
  *line = (struct line){self->buffer + self->start, length, partial, self->raw};
  self->start += length;
  return true;
}

/* Skips a byte order mark. Returns false if more bytes are needed to know whether it is one. */
static bool begin(struct line_splitter *self) {
  size_t length = self->end;
  if (length < UTF8_MARK_LENGTH && !self->ended &&
      (length == 0 || memcmp(self->buffer, UTF8_MARK, length) == 0))
    return false;
  self->begun = true;
  self->start = utf8_is_marked(self->buffer, length) ? UTF8_MARK_LENGTH : 0;
  return true;
}

static bool next_raw(struct line_splitter *self, struct line *line) {
  size_t left = self->end - self->start;
  if (left > 0)
    return split_off(self, line, left < self->piece_max ? left : self->piece_max, false);
  shrink(self);
  return false;
}

bool line_splitter_next(struct line_splitter *self, struct line *line) {
  if (self->raw)
    return next_raw(self, line);
  if (!self->begun && !begin(self))
    return false;
  if (self->swallow_newline && self->start < self->end) {
    self->start += self->buffer[self->start] == '\n';
    self->swallow_newline = false;
  }
  if (self->scanned < self->start)
    self->scanned = self->start;

  /* One more byte than a piece, which may end a line of exactly that length. */
  size_t left = self->end - self->start;
  size_t limit = left > self->piece_max ? self->start + self->piece_max + 1 : self->end;
  self->scanned = find_line_end(self->buffer, self->scanned, limit);
  if (self->scanned < limit) {
    self->swallow_newline = self->buffer[self->scanned] == '\r';
    split_off(self, line, self->scanned - self->start, false);
    self->start++;
    return true;
  }
  if (left > self->piece_max)
    return split_off(self, line, utf8_cut(self->buffer + self->start, self->piece_max), true);
  if (self->ended && left > 0)
    return split_off(self, line, left, false);
  shrink(self);
  return false;
}
