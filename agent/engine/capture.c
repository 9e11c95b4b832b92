#include "agent/engine/capture.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/swar.h"
#include "base/utf8.h"

/* How much of the end of a raw stream is searched for its last line. */
#define LAST_LINE_MAX ((size_t)1024)

/* The first allocation for stdout, which is enough for most commands. */
#define HEAD_FIRST ((size_t)4096)

/* --- captured streams ------------------------------------------------------------------------- */

/* `at` is neither 0 nor the end of the text. */
static bool line_begins(const char *text, size_t at) {
  return text[at - 1] == '\n' || (text[at - 1] == '\r' && text[at] != '\n');
}

size_t captured_stream_tail_at(const char *text, size_t length, size_t max) {
  if (length <= max)
    return 0;
  const size_t first = length - max;
  for (size_t at = first; at < length; at++)
    if (line_begins(text, at))
      return at;
  return first + utf8_rest(text + first, max);
}

/* Returns where to cut the first `max` bytes of a longer text. */
static size_t head_end(const char *text, size_t max) {
  for (size_t at = max; at > 0; at--)
    if (line_begins(text, at))
      return at;
  return utf8_cut(text, max);
}

struct captured_stream captured_stream_shown(struct captured_stream self, size_t max) {
  while (!self.truncated && self.length > 0 && self.bytes[self.length - 1] == '\n')
    self.length--;
  if (self.length > max) {
    self.length = utf8_cut(self.bytes, max);
    self.truncated = true;
  }
  return self;
}

struct captured_stream captured_stream_ends(struct captured_stream self, size_t side) {
  if (!self.truncated && self.length <= 2 * side)
    return self;
  if (!self.truncated) {
    self.tail = self.bytes;
    self.tail_length = self.total = self.length;
    self.truncated = true;
  }
  const size_t at = captured_stream_tail_at(self.tail, self.tail_length, side);
  self.tail += at;
  self.tail_length -= at;
  if (self.length > side)
    self.length = head_end(self.bytes, side);
  return self;
}

uint64_t captured_stream_left_out(const struct captured_stream *self) {
  return self->total - self->length - self->tail_length;
}

/* --- the capture ------------------------------------------------------------------------------ */

void capture_init(struct capture *self, size_t raw_limit, size_t raw_tail) {
  const size_t tail = raw_limit > 0 ? raw_tail : CAPTURE_OUTPUT_TAIL_MAX;
  *self = (struct capture){.streams = {{.tail.max = tail}, {.tail.max = tail}},
                           .errors.max = CAPTURE_ERRORS_MAX,
                           .raw_limit = raw_limit};
}

void capture_release(struct capture *self) {
  for (int i = 0; i < 2; i++) {
    buffer_release(&self->streams[i].head);
    free(self->streams[i].tail.bytes);
  }
  free(self->errors.bytes);
  free(self->raw_space);
}

/* --- tails ----------------------------------------------------------------------------------- */

static size_t length_of_tail(const struct capture_tail *self) {
  return self->is_full ? self->size : self->at;
}

static void add_to_tail(struct capture_tail *self, const char *text, size_t length) {
  if (self->bytes == NULL) {
    self->size = self->max + 1;
    self->bytes = memory_allocate(self->size);
  }
  if (length > self->size) {
    text += length - self->size;
    length = self->size;
  }
  const size_t capacity = self->size - self->at;
  if (length < capacity) {
    memcpy(self->bytes + self->at, text, length);
    self->at += length;
    return;
  }
  memcpy(self->bytes + self->at, text, capacity);
  memcpy(self->bytes, text + capacity, length - capacity);
  self->at = length - capacity;
  self->is_full = true;
}

/* The fast path, because this runs for each line of output. */
static inline void add_line_to_tail(struct capture_tail *self, const char *text, size_t length,
                                    bool partial) {
  if (length + 1 < self->size - self->at) {
    char *end = swar_copy(self->bytes + self->at, text, length);
    if (!partial)
      *end++ = '\n';
    self->at = (size_t)(end - self->bytes);
    return;
  }
  add_to_tail(self, text, length);
  if (!partial)
    add_to_tail(self, "\n", 1);
}

/* Copies the last `length` bytes; the tail has at least this many. */
static void copy_of_tail(const struct capture_tail *self, char *out, size_t length) {
  const size_t wrapped = self->at < length ? length - self->at : 0;
  memcpy(out, self->bytes + self->size - wrapped, wrapped);
  memcpy(out + wrapped, self->bytes + self->at - (length - wrapped), length - wrapped);
}

/* Returns the bytes in order, after rotating the ring if necessary. */
static const char *text_of_tail(struct capture_tail *self, size_t *length) {
  *length = length_of_tail(self);
  if (self->is_full && self->at > 0) {
    char *bytes = memory_allocate(self->size);
    copy_of_tail(self, bytes, self->size);
    free(self->bytes);
    self->bytes = bytes;
    self->at = 0;
  }
  return self->bytes;
}

/* --- streams --------------------------------------------------------------------------------- */

/* The head is full: the tail begins with the end of it. */
static void begin_tail(struct capture_stream *self) {
  const struct buffer *head = &self->head;
  const size_t size = self->tail.max + 1;
  const size_t kept = head->length < size ? head->length : size;
  if (self->tail.max > 0)
    add_to_tail(&self->tail, head->bytes + head->length - kept, kept);
}

struct captured_stream capture_stream(struct capture *self, bool is_stderr) {
  struct capture_stream *stream = &self->streams[is_stderr];
  struct captured_stream kept = {.bytes = stream->head.bytes, .length = stream->head.length};
  if (!stream->truncated)
    return kept;
  kept.truncated = true;
  kept.total = stream->head.length + stream->behind;
  if (self->raw_limit > 0)
    kept.length = utf8_cut(kept.bytes, kept.length);
  if (stream->tail.max > 0) {
    size_t length;
    const char *text = text_of_tail(&stream->tail, &length);
    const size_t at = captured_stream_tail_at(text, length, stream->tail.max);
    kept.tail = text + at;
    kept.tail_length = length - at;
  }
  return kept;
}

/* --- lines ----------------------------------------------------------------------------------- */

/* A unit has at least one byte, so the units of a shorter head need not be counted. */
static void update_head_full(struct capture *self) {
  const struct buffer *head = &self->streams[0].head;
  if (head->length < CAPTURE_HEAD_UNITS)
    return;
  self->head_units +=
      utf16_units(head->bytes + self->head_counted, head->length - self->head_counted);
  self->head_counted = head->length;
  self->head_full = self->head_units >= CAPTURE_HEAD_UNITS;
}

static void add_to_head(struct capture *self, const char *text, size_t length, bool partial) {
  struct buffer *head = &self->streams[0].head;
  if (length >= head->capacity - head->length)
    (void)buffer_space(head, length < HEAD_FIRST ? HEAD_FIRST : length + 1);
  char *end = swar_copy(head->bytes + head->length, text, length);
  if (!partial)
    *end++ = '\n';
  head->length = (size_t)(end - head->bytes);
  update_head_full(self);
}

static void add_behind(struct capture_stream *self, const char *text, size_t length, bool partial) {
  if (!self->truncated)
    begin_tail(self);
  self->truncated = true;
  self->behind += length + !partial;
  add_line_to_tail(&self->tail, text, length, partial);
}

void capture_add(struct capture *self, bool from_stdout, const char *text, size_t length,
                 bool partial) {
  if (from_stdout && self->head_full)
    add_behind(&self->streams[0], text, length, partial);
  else if (from_stdout)
    add_to_head(self, text, length, partial);
  add_line_to_tail(&self->errors, text, length, partial);
}

const char *capture_errors(struct capture *self, size_t *length) {
  const char *text = text_of_tail(&self->errors, length);
  if (*length > CAPTURE_ERRORS_MAX) {
    const size_t rest = 1 + utf8_rest(text + 1, CAPTURE_ERRORS_MAX);
    text += rest;
    *length -= rest;
  }
  if (*length > 0 && text[*length - 1] == '\n')
    --*length;
  return text;
}

/* --- content --------------------------------------------------------------------------------- */

/* Bytes beyond CAPTURE_CONTENT_MAX are read, too, and overwritten. Short content is never moved:
   the first allocation is enough to read it and its end-of-file. */
char *capture_content_space(struct capture *self, size_t before, size_t *size) {
  struct buffer *head = &self->streams[0].head;
  char *space =
      buffer_space(head, before + (head->capacity == 0 ? 2 * CAPTURE_READ : CAPTURE_READ));
  *size = head->capacity - head->length - before;
  return space;
}

void capture_content_filled(struct capture *self, size_t length) {
  struct buffer *head = &self->streams[0].head;
  CHECK(length <= head->capacity - head->length);
  size_t capacity = CAPTURE_CONTENT_MAX - head->length;
  head->length += length < capacity ? length : capacity;
}

/* --- raw ------------------------------------------------------------------------------------- */

char *capture_raw_space(struct capture *self, size_t before) {
  if (self->raw_space_size < before + CAPTURE_READ) {
    self->raw_space_size = before + CAPTURE_READ;
    free(self->raw_space);
    self->raw_space = memory_allocate(self->raw_space_size);
  }
  return self->raw_space;
}

static bool is_newlines(const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (bytes[i] != '\n')
      return false;
  return true;
}

void capture_raw_filled(struct capture *self, bool is_stderr, size_t length) {
  struct capture_stream *stream = &self->streams[is_stderr];
  self->total += length;
  self->newest = is_stderr;
  size_t capacity = self->raw_limit - stream->head.length;
  size_t taken = length < capacity ? length : capacity;
  buffer_add(&stream->head, self->raw_space, taken);
  if (taken == length)
    return;
  if (!stream->truncated)
    stream->truncated = !is_newlines(self->raw_space + taken, length - taken);
  if (stream->behind == 0)
    begin_tail(stream);
  if (stream->tail.max > 0)
    add_to_tail(&stream->tail, self->raw_space + taken, length - taken);
  stream->behind += length - taken;
}

static bool is_line_end(char byte) {
  return byte == '\n' || byte == '\r';
}

/* Copies the end of the stream to `end`. `*line` is its last line that is not empty, in `end`.
   Returns its length. */
static size_t last_line(const struct capture_stream *self, char end[LAST_LINE_MAX],
                        const char **line) {
  const bool has_tail = self->tail.bytes != NULL;
  const size_t kept = has_tail ? length_of_tail(&self->tail) : self->head.length;
  size_t stop = kept < LAST_LINE_MAX ? kept : LAST_LINE_MAX;
  if (has_tail)
    copy_of_tail(&self->tail, end, stop);
  else if (stop > 0)
    memcpy(end, self->head.bytes + kept - stop, stop);
  while (stop > 0 && is_line_end(end[stop - 1]))
    stop--;
  size_t start = stop;
  while (start > 0 && !is_line_end(end[start - 1]))
    start--;
  start += utf8_rest(end + start, stop - start); /* `end` may begin inside a character */
  *line = end + start;
  return stop - start;
}

size_t capture_last_line(const struct capture *self, char *out, size_t size) {
  char end[LAST_LINE_MAX];
  const char *line;
  size_t length = last_line(&self->streams[self->newest], end, &line);
  if (length == 0)
    length = last_line(&self->streams[!self->newest], end, &line);
  if (length > size)
    length = utf8_cut(line, size);
  if (length > 0)
    memcpy(out, line, length);
  return length;
}
