#include "agent/engine/raw_output.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/utf8.h"

/* The end of a stream in which its last line is looked for. */
#define TAIL_MAX ((size_t)1024)

struct stream {
  struct buffer head;
  bool truncated;
  char tail[TAIL_MAX];
  size_t tail_length;
};

struct raw_output {
  size_t limit;
  uint64_t total;
  struct stream streams[2];
  bool newest; /* which one was written to last */
  char space[RAW_OUTPUT_READ];
};

struct raw_output *raw_output_new(size_t limit) {
  struct raw_output *self = memory_allocate(sizeof *self);
  memset(self, 0, offsetof(struct raw_output, space)); /* which is only touched as far as needed */
  self->limit = limit;
  return self;
}

void raw_output_free(struct raw_output *self) {
  if (self == NULL)
    return;
  buffer_release(&self->streams[false].head);
  buffer_release(&self->streams[true].head);
  free(self);
}

char *raw_output_space(struct raw_output *self) {
  return self->space;
}

/* Drops each NUL; returns the new length. */
static size_t drop_nul(char *bytes, size_t length) {
  char *out = memchr(bytes, '\0', length);
  if (out == NULL)
    return length;
  for (const char *at = out; at < bytes + length; at++)
    if (*at != '\0')
      *out++ = *at;
  return (size_t)(out - bytes);
}

static bool is_newlines(const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (bytes[i] != '\n')
      return false;
  return true;
}

static void add_to_head(struct stream *stream, size_t limit, const char *bytes, size_t length) {
  size_t room = limit - stream->head.length;
  size_t taken = length < room ? length : room;
  if (taken > 0)
    buffer_add(&stream->head, bytes, taken);
  if (!stream->truncated)
    stream->truncated = !is_newlines(bytes + taken, length - taken);
}

static void add_to_tail(struct stream *stream, const char *bytes, size_t length) {
  size_t taken = length < TAIL_MAX ? length : TAIL_MAX;
  size_t kept = stream->tail_length < TAIL_MAX - taken ? stream->tail_length : TAIL_MAX - taken;
  memmove(stream->tail, stream->tail + stream->tail_length - kept, kept);
  memcpy(stream->tail + kept, bytes + length - taken, taken);
  stream->tail_length = kept + taken;
}

void raw_output_filled(struct raw_output *self, bool is_stderr, size_t length) {
  struct stream *stream = &self->streams[is_stderr];
  self->total += length;
  self->newest = is_stderr;
  length = drop_nul(self->space, length);
  add_to_head(stream, self->limit, self->space, length);
  add_to_tail(stream, self->space, length);
}

struct run_stream raw_output_stream(const struct raw_output *self, bool is_stderr) {
  const struct stream *stream = &self->streams[is_stderr];
  size_t length = stream->head.length;
  if (stream->truncated)
    length = utf8_cut(stream->head.bytes, length);
  return (struct run_stream){
      .bytes = stream->head.bytes, .length = length, .truncated = stream->truncated};
}

uint64_t raw_output_total(const struct raw_output *self) {
  return self->total;
}

static bool is_line_end(char byte) {
  return byte == '\n' || byte == '\r';
}

static size_t last_line(const struct stream *stream, const char **line) {
  size_t end = stream->tail_length;
  while (end > 0 && is_line_end(stream->tail[end - 1]))
    end--;
  size_t begin = end;
  while (begin > 0 && !is_line_end(stream->tail[begin - 1]))
    begin--;
  for (int i = 0; i < 3 && begin < end && ((unsigned char)stream->tail[begin] & 0xC0) == 0x80; i++)
    begin++; /* the tail may begin inside of a character */
  *line = stream->tail + begin;
  return end - begin;
}

size_t raw_output_last_line(const struct raw_output *self, char *out, size_t size) {
  const char *line;
  size_t length = last_line(&self->streams[self->newest], &line);
  if (length == 0)
    length = last_line(&self->streams[!self->newest], &line);
  if (length > size)
    length = utf8_cut(line, size);
  memcpy(out, line, length);
  return length;
}
