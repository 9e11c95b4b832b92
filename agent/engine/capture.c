#include "agent/engine/capture.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/swar.h"
#include "base/utf8.h"

/* The end of a raw stream in which its last line is looked for. */
#define RAW_TAIL_MAX ((size_t)1024)

/* What is allocated for stdout first: enough for most commands. */
#define HEAD_FIRST ((size_t)4096)

void capture_init(struct capture *self, size_t raw_limit) {
  *self = (struct capture){.raw_limit = raw_limit};
}

void capture_release(struct capture *self) {
  for (int i = 0; i < 2; i++) {
    buffer_release(&self->heads[i]);
    free(self->tails[i].bytes);
  }
  free(self->raw_space);
}

/* Moves at most one byte for each byte that is added. Of a longer output it keeps more than `max`
   bytes, so that the length shows that it was cut. */
static void add_to_tail(struct capture_tail *self, size_t max, const char *text, size_t length) {
  const size_t capacity = 2 * max;
  if (self->bytes == NULL)
    self->bytes = memory_allocate(capacity);
  if (length > capacity) {
    text += length - capacity;
    length = capacity;
  }
  size_t room = capacity - length;
  if (self->length > room) {
    size_t kept = room < max ? room : max;
    memmove(self->bytes, self->bytes + self->length - kept, kept);
    self->length = kept;
  }
  (void)swar_copy(self->bytes + self->length, text, length);
  self->length += length;
}

/* The last `max` bytes, or all; "" when there are none. */
static const char *end_of_tail(const struct capture_tail *self, size_t max, size_t *length) {
  *length = self->length < max ? self->length : max;
  return self->bytes != NULL ? self->bytes + self->length - *length : "";
}

/* --- lines ----------------------------------------------------------------------------------- */

/* A unit has at least one byte: shorter output is not counted. */
static bool is_head_full(struct capture *self) {
  const struct buffer *head = &self->heads[0];
  if (head->length < CAPTURE_HEAD_UNITS)
    return false;
  self->head_units +=
      utf16_units(head->bytes + self->head_counted, head->length - self->head_counted);
  self->head_counted = head->length;
  return self->head_units >= CAPTURE_HEAD_UNITS;
}

static void add_to_head(struct capture *self, const char *text, size_t length, bool partial) {
  if (self->head_full)
    return;
  struct buffer *head = &self->heads[0];
  if (length >= head->capacity - head->length)
    (void)buffer_space(head, length < HEAD_FIRST ? HEAD_FIRST : length + 1);
  char *end = swar_copy(head->bytes + head->length, text, length);
  if (!partial)
    *end++ = '\n';
  head->length = (size_t)(end - head->bytes);
  self->head_full = is_head_full(self);
}

void capture_add(struct capture *self, bool from_stdout, const char *text, size_t length,
                 bool partial) {
  if (from_stdout)
    add_to_head(self, text, length, partial);
  add_to_tail(&self->tails[0], CAPTURE_TAIL_MAX, text, length);
  add_to_tail(&self->tails[0], CAPTURE_TAIL_MAX, "\n", partial ? 0 : 1);
}

const char *capture_head(const struct capture *self, size_t *length) {
  *length = self->heads[0].length;
  return self->heads[0].bytes;
}

const char *capture_tail(const struct capture *self, size_t *length) {
  const struct capture_tail *tail = &self->tails[0];
  const char *text = end_of_tail(tail, CAPTURE_TAIL_MAX, length);
  if (*length < tail->length)
    for (int i = 0; i < 3 && ((unsigned char)*text & 0xC0) == 0x80; i++, --*length)
      text++;
  if (*length > 0 && text[*length - 1] == '\n')
    --*length;
  return tail->bytes != NULL ? text : NULL;
}

/* --- content --------------------------------------------------------------------------------- */

/* What is beyond CAPTURE_CONTENT_MAX is read, too, and overwritten. A short content never moves:
   the first room is enough to read it and to see its end. */
char *capture_content_space(struct capture *self, size_t *size) {
  struct buffer *head = &self->heads[0];
  char *space = buffer_space(head, head->capacity == 0 ? 2 * CAPTURE_READ : CAPTURE_READ);
  *size = head->capacity - head->length;
  return space;
}

void capture_content_filled(struct capture *self, size_t length) {
  struct buffer *head = &self->heads[0];
  CHECK(length <= head->capacity - head->length);
  size_t room = CAPTURE_CONTENT_MAX - head->length;
  head->length += length < room ? length : room;
}

/* --- raw ------------------------------------------------------------------------------------- */

char *capture_raw_space(struct capture *self) {
  if (self->raw_space == NULL)
    self->raw_space = memory_allocate(CAPTURE_READ);
  return self->raw_space;
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

void capture_raw_filled(struct capture *self, bool is_stderr, size_t length) {
  struct buffer *head = &self->heads[is_stderr];
  self->total += length;
  self->newest = is_stderr;
  length = drop_nul(self->raw_space, length);
  size_t room = self->raw_limit - head->length;
  size_t taken = length < room ? length : room;
  buffer_add(head, self->raw_space, taken);
  if (!self->truncated[is_stderr])
    self->truncated[is_stderr] = !is_newlines(self->raw_space + taken, length - taken);
  add_to_tail(&self->tails[is_stderr], RAW_TAIL_MAX, self->raw_space, length);
}

struct run_stream capture_raw_stream(const struct capture *self, bool is_stderr) {
  const struct buffer *head = &self->heads[is_stderr];
  bool truncated = self->truncated[is_stderr];
  return (struct run_stream){.bytes = head->bytes,
                             .length =
                                 truncated ? utf8_cut(head->bytes, head->length) : head->length,
                             .truncated = truncated};
}

static bool is_line_end(char byte) {
  return byte == '\n' || byte == '\r';
}

static size_t last_line(const struct capture_tail *tail, const char **line) {
  size_t end;
  const char *bytes = end_of_tail(tail, RAW_TAIL_MAX, &end);
  while (end > 0 && is_line_end(bytes[end - 1]))
    end--;
  size_t begin = end;
  while (begin > 0 && !is_line_end(bytes[begin - 1]))
    begin--;
  for (int i = 0; i < 3 && begin < end && ((unsigned char)bytes[begin] & 0xC0) == 0x80; i++)
    begin++; /* the tail may begin inside of a character */
  *line = bytes + begin;
  return end - begin;
}

size_t capture_last_line(const struct capture *self, char *out, size_t size) {
  const char *line;
  size_t length = last_line(&self->tails[self->newest], &line);
  if (length == 0)
    length = last_line(&self->tails[!self->newest], &line);
  if (length > size)
    length = utf8_cut(line, size);
  if (length > 0)
    memcpy(out, line, length);
  return length;
}
