#include "agent/frontends/line_reader.h"

#include <string.h>

#include "base/utf8.h"

/* A larger buffer is freed when it is empty. */
#define KEPT_BYTES ((size_t)256 * 1024)

const char *const line_reader_members[] = {"id", "jsonrpc", NULL};

static void release_buffer(struct line_reader *self) {
  buffer_release(&self->buffer);
  self->taken = self->searched = 0;
}

static void release_outline(struct line_reader *self) {
  buffer_release(&self->outline.members);
  self->outline = (struct json_outline){0};
}

void line_reader_release(struct line_reader *self) {
  release_buffer(self);
  release_outline(self);
}

static size_t left(const struct line_reader *self) {
  return self->buffer.length - self->taken;
}

static void free_large_buffer(struct line_reader *self) {
  if (left(self) == 0 && self->buffer.capacity > KEPT_BYTES)
    release_buffer(self);
}

/* Returned bytes are removed once they are half of the buffer. */
void line_reader_add(struct line_reader *self, const char *bytes, size_t length) {
  free_large_buffer(self);
  if (self->taken > 0 && self->taken >= left(self)) {
    memmove(self->buffer.bytes, self->buffer.bytes + self->taken, left(self));
    self->buffer.length -= self->taken;
    self->searched -= self->taken;
    self->taken = 0;
  }
  buffer_add(&self->buffer, bytes, length);
}

void line_reader_end(struct line_reader *self) {
  self->ended = true;
}

static void skip_mark(struct line_reader *self) {
  size_t length = self->buffer.length;
  bool may_become_mark = length < UTF8_MARK_LENGTH && !self->ended &&
                         memcmp(self->buffer.bytes, UTF8_MARK, length) == 0;
  if (may_become_mark)
    return;
  self->state = IN_LINES;
  if (utf8_is_marked(self->buffer.bytes, length))
    self->taken = self->searched = UTF8_MARK_LENGTH;
}

static bool is_blank(const char *text, size_t length) {
  while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL && text[length - 1] != '\0')
    length--;
  return length == 0;
}

/* Returns the end of the next line: its newline, the end of the stream, or NULL. */
static const char *find_end(struct line_reader *self) {
  if (left(self) == 0)
    return NULL;
  const char *end = self->buffer.bytes + self->buffer.length;
  const char *at = self->buffer.bytes + self->searched;
  const char *newline = memchr(at, '\n', (size_t)(end - at));
  self->searched = self->buffer.length;
  return newline == NULL && self->ended ? end : newline;
}

/* Moves past `end`, and past the newline there. */
static void consume(struct line_reader *self, const char *end) {
  size_t at = (size_t)(end - self->buffer.bytes);
  self->taken = self->searched = at < self->buffer.length ? at + 1 : at;
}

static size_t add_to_outline(struct line_reader *self, const char *text, size_t length) {
  self->outline.names = line_reader_members;
  return json_outline_add(&self->outline, text, length);
}

/* Takes what has arrived of a line that is too long; a `\r` at its end does not count. */
static void skip(struct line_reader *self) {
  if (self->state == IN_LINES && left(self) > self->limit + 1)
    self->state = SKIPPING_LINE;
  if (self->state != SKIPPING_LINE || left(self) == 0)
    return;
  self->taken += add_to_outline(self, self->buffer.bytes + self->taken, left(self));
  self->searched = self->buffer.length;
}

/* Returns the line, or the outline of a line that is too long, which these bytes end. */
static struct input_line end_line(struct line_reader *self, const char *text, size_t length) {
  bool too_long = self->state == SKIPPING_LINE || length > self->limit;
  self->state = IN_LINES;
  if (!too_long)
    return (struct input_line){.text = text, .length = length};
  (void)add_to_outline(self, text, length);
  const struct buffer *members = &self->outline.members;
  return (struct input_line){.text = members->bytes, .length = members->length, .too_long = true};
}

bool line_reader_next(struct line_reader *self, struct input_line *line) {
  if (self->state != SKIPPING_LINE)
    release_outline(self);
  free_large_buffer(self);
  if (self->state == STREAM_START && self->buffer.length > 0)
    skip_mark(self);
  for (const char *end; self->state != STREAM_START && (end = find_end(self)) != NULL;) {
    const char *text = self->buffer.bytes + self->taken;
    size_t length = (size_t)(end - text);
    consume(self, end);
    if (length > 0 && text[length - 1] == '\r')
      length--;
    *line = end_line(self, text, length);
    if (line->too_long || !is_blank(text, length))
      return true;
  }
  skip(self);
  bool is_last = self->state == SKIPPING_LINE && self->ended && left(self) == 0;
  if (is_last)
    *line = end_line(self, "", 0);
  return is_last;
}

void line_reader_error(const struct line_reader *self, struct error *error) {
  (void)error_set(error, "expected a line of at most %zu bytes", self->limit);
}
