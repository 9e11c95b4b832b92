/*
 * The server holds the beginning of a stream up to a mebibyte, and of what follows its last lines.
 * Here all of it is held, and what the server would hold is found afterwards: lines are counted in
 * bytes for the head and in units for the tail, as there.
 */

#include "tests/support/october_output.h"

#include "tests/test.h"

enum { HEAD_BYTES = 1048576, TAIL_UNITS = 60000 };

long long october_units(const char *text, size_t length) {
  long long units = 0;
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)text[i];
    units += (byte & 0xC0) != 0x80;
    units += byte >= 0xF0;
  }
  return units;
}

void october_stream_append(struct october_stream *self, const char *line, size_t length) {
  if (self->length + length + 2 > self->size) {
    self->size = 2 * (self->length + length + 2);
    self->text = realloc(self->text, self->size);
    assert_non_null(self->text);
  }
  memcpy(self->text + self->length, line, length);
  self->length += length;
  self->text[self->length++] = '\n';
  self->text[self->length] = '\0';
  self->units += october_units(line, length) + 1;
}

void october_stream_release(struct october_stream *self) {
  free(self->text);
  *self = (struct october_stream){0};
}

/* Where the text of so many units ends; not within a code point. */
static size_t bytes_of_units(const char *text, size_t length, long long units) {
  size_t at = 0;
  while (at < length && units > 0) {
    units -= (unsigned char)text[at] >= 0xF0 ? 2 : 1;
    do
      at++;
    while (at < length && ((unsigned char)text[at] & 0xC0) == 0x80);
  }
  return at;
}

/* Whole lines, counted as the server does: units so far, and the next line's bytes. */
static size_t head_length(const struct october_stream *self) {
  size_t at = 0;
  long long units = 0;
  while (at < self->length) {
    size_t line =
        (size_t)((char *)memchr(self->text + at, '\n', self->length - at) - (self->text + at)) + 1;
    if (units + (long long)line > HEAD_BYTES)
      return at;
    units += october_units(self->text + at, line);
    at += line;
  }
  return at;
}

/* Where the last lines begin that have so many units together; of one that is longer, its end. */
static size_t tail_begin(const struct october_stream *self, size_t head) {
  size_t begin = self->length;
  long long units = 0;
  while (begin > head) {
    const char *before = memrchr(self->text + head, '\n', begin - 1 - head);
    size_t line = before == NULL ? head : (size_t)(before + 1 - self->text);
    long long more = october_units(self->text + line, begin - line);
    if (units + more > TAIL_UNITS)
      return units > 0 ? begin
                       : line + bytes_of_units(self->text + line, begin - line, more - TAIL_UNITS);
    units += more;
    begin = line;
  }
  return begin;
}

/* What is held of the stream behind this position. */
static void take_after(const struct october_stream *self, long long position,
                       struct october_section *section) {
  size_t head = head_length(self);
  size_t begin = head < self->length ? tail_begin(self, head) : 0;
  long long before = october_units(self->text, begin);
  if (position > before)
    begin += bytes_of_units(self->text + begin, self->length - begin, position - before);
  section->tail = self->text + begin;
  section->tail_length = self->length - begin;
}

struct october_section october_section_of(const char *body, const struct october_stream *stream) {
  struct october_section section = {.head = "", .tail = "", .total = stream->units};
  if (body == NULL) {
    if (stream->text == NULL)
      return section;
    section.head = stream->text;
    section.head_length = head_length(stream);
    if (section.head_length < stream->length) {
      size_t begin = tail_begin(stream, section.head_length);
      section.tail = stream->text + begin;
      section.tail_length = stream->length - begin;
    }
    return section;
  }
  section.head = body;
  section.head_length = strlen(body);
  long long units = october_units(body, section.head_length);
  if (units >= OCTOBER_BODY_UNITS && stream->units > units) {
    take_after(stream, units, &section);
  } else {
    section.total = units;
    section.tail_not_captured = units >= OCTOBER_BODY_UNITS;
  }
  return section;
}

bool october_section_ends_with(const struct october_section *self, const char *line) {
  const char *text = self->tail_length > 0 ? self->tail : self->head;
  size_t length = self->tail_length > 0 ? self->tail_length : self->head_length;
  size_t wanted = strlen(line);
  while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
    length--;
  if (self->tail_not_captured || length < wanted)
    return false;
  bool begins_line = length == wanted || text[length - wanted - 1] == '\n';
  return begins_line && memcmp(text + length - wanted, line, wanted) == 0;
}
