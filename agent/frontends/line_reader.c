#include "agent/frontends/line_reader.h"

#include <string.h>

#include "base/utf8.h"

/* A larger buffer is given back when it is empty. */
#define KEPT_BYTES ((size_t)256 * 1024)

const char *const line_reader_members[] = {"id", "jsonrpc", NULL};

static void release_buffer(struct line_reader *self) {
  buffer_release(&self->buffer);
  self->given = self->searched = 0;
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
  return self->buffer.length - self->given;
}

static void give_back(struct line_reader *self) {
  if (left(self) == 0 && self->buffer.capacity > KEPT_BYTES)
    release_buffer(self);
}

/* What is over makes way once it is half of the buffer. */
void line_reader_add(struct line_reader *self, const char *bytes, size_t length) {
  give_back(self);
  if (self->given > 0 && self->given >= left(self)) {
    memmove(self->buffer.bytes, self->buffer.bytes + self->given, left(self));
    self->buffer.length -= self->given;
    self->searched -= self->given;
    self->given = 0;
  }
  buffer_add(&self->buffer, bytes, length);
}

void line_reader_end(struct line_reader *self) {
  self->ended = true;
}

static void skip_mark(struct line_reader *self) {
  if (self->begun)
    return;
  size_t length = self->buffer.length;
  if (length < UTF8_MARK_LENGTH && !self->ended && length > 0 &&
      memcmp(self->buffer.bytes, UTF8_MARK, length) == 0)
    return; /* it may still become one */
  self->begun = length > 0;
  if (self->begun && utf8_is_marked(self->buffer.bytes, length))
    self->given = self->searched = UTF8_MARK_LENGTH;
}

static bool is_space(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\r';
}

static bool is_blank(const char *text, size_t length) {
  while (length > 0 && is_space(text[length - 1]))
    length--;
  return length == 0;
}

/* Where the next line ends: its newline, the end of the stream, or NULL. */
static const char *find_end(struct line_reader *self) {
  if (left(self) == 0)
    return NULL;
  const char *end = self->buffer.bytes + self->buffer.length;
  const char *at = self->buffer.bytes + self->searched;
  const char *newline = memchr(at, '\n', (size_t)(end - at));
  self->searched = self->buffer.length;
  return newline == NULL && self->ended ? end : newline;
}

/* Takes the bytes up to `end`, and the newline there. */
static void consume(struct line_reader *self, const char *end) {
  size_t at = (size_t)(end - self->buffer.bytes);
  self->given = self->searched = at < self->buffer.length ? at + 1 : at;
}

/* Bytes of a line that is too long. */
static size_t outline(struct line_reader *self, const char *text, size_t length) {
  self->outline.names = line_reader_members;
  return json_outline_add(&self->outline, text, length);
}

/* What has come of a line without its end: with a `\r` it may have one byte more. */
static void skip(struct line_reader *self) {
  self->skipping = self->skipping || (self->begun && left(self) > self->limit + 1);
  if (!self->skipping || left(self) == 0)
    return;
  self->given += outline(self, self->buffer.bytes + self->given, left(self));
  self->searched = self->buffer.length;
}

/* Of a line that is too long these are the last bytes. */
static struct input_line end_line(struct line_reader *self, const char *text, size_t length) {
  bool too_long = self->skipping || length > self->limit;
  self->skipping = false;
  if (!too_long)
    return (struct input_line){.text = text, .length = length};
  (void)outline(self, text, length);
  const struct buffer *members = &self->outline.members;
  return (struct input_line){.text = members->bytes, .length = members->length, .too_long = true};
}

bool line_reader_next(struct line_reader *self, struct input_line *line) {
  if (!self->skipping)
    release_outline(self);
  give_back(self);
  skip_mark(self);
  for (const char *end; self->begun && (end = find_end(self)) != NULL;) {
    const char *text = self->buffer.bytes + self->given;
    size_t length = (size_t)(end - text);
    consume(self, end);
    if (length > 0 && text[length - 1] == '\r')
      length--;
    *line = end_line(self, text, length);
    if (line->too_long || !is_blank(text, length))
      return true;
  }
  skip(self);
  bool is_last = self->skipping && self->ended && left(self) == 0;
  if (is_last)
    *line = end_line(self, "", 0);
  return is_last;
}

void line_reader_error(const struct line_reader *self, struct error *error) {
  (void)error_set(error, "expected a line of at most %zu bytes", self->limit);
}
