#include "agent/files/access/line_range.h"

#include <string.h>

#include "base/check.h"
#include "base/decimal.h"
#include "base/utf8.h"

bool line_range_is_all(const struct line_range *self) {
  return self->start_line == 0 && self->line_count == 0;
}

int line_range_check(const char *content, size_t length, struct error *error) {
  return utf8_valid_prefix(content, length) == length
             ? 0
             : error_set(error, "binary or non-UTF-8 content not supported");
}

/* --- the choice ------------------------------------------------------------------------------ */

void line_choice_init(struct line_choice *self, const struct line_range *range, size_t max) {
  const uint64_t first = range->start_line > 0 ? range->start_line : 1;
  *self = (struct line_choice){.first = first,
                               .last = range->line_count > 0 ? first + range->line_count - 1
                                                             : UINT64_MAX,
                               .max = max,
                               .place = first == 1 ? LINE_CHOICE_INSIDE : LINE_CHOICE_BEFORE};
}

void line_choice_release(struct line_choice *self) {
  buffer_release(&self->text);
}

/* Counts the next "\n" and returns the end of it, or NULL if there is none. */
static const char *next_line(struct line_choice *self, const char *at, const char *end) {
  const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
  if (newline == NULL)
    return NULL;
  self->ends++;
  return newline + 1;
}

/* Skips lines before the range, and returns where it begins or `end`. */
static const char *skip_lines(struct line_choice *self, const char *at, const char *end) {
  while (self->place == LINE_CHOICE_BEFORE) {
    at = next_line(self, at, end);
    if (at == NULL)
      return end;
    if (self->ends + 1 == self->first)
      self->place = LINE_CHOICE_INSIDE;
  }
  return at;
}

static void keep(struct line_choice *self, const char *bytes, size_t length) {
  const size_t capacity = self->max - self->text.length;
  buffer_add(&self->text, bytes, length < capacity ? length : capacity);
  self->chosen += length;
}

/* Keeps the lines of the range, and returns where it ends or `end`. */
static const char *keep_lines(struct line_choice *self, const char *at, const char *end) {
  const char *line = at;
  while (self->place == LINE_CHOICE_INSIDE) {
    line = next_line(self, line, end);
    if (line == NULL) {
      keep(self, at, (size_t)(end - at));
      return end;
    }
    if (self->ends == self->last) {
      keep(self, at, (size_t)(line - 1 - at));
      self->place = LINE_CHOICE_BEHIND;
    }
  }
  return line;
}

void line_choice_add(struct line_choice *self, const char *piece, size_t length) {
  if (length == 0)
    return;
  const char *end = piece + length;
  self->bytes += length;
  self->newest = end[-1];
  piece = skip_lines(self, piece, end);
  piece = keep_lines(self, piece, end);
  self->behind += (size_t)(end - piece);
  while (piece != NULL)
    piece = next_line(self, piece, end);
}

bool line_choice_goes_on(const struct line_choice *self) {
  if (self->bytes <= LINE_CHOICE_COUNTED || self->place == LINE_CHOICE_BEFORE)
    return true;
  return self->place == LINE_CHOICE_INSIDE ? self->chosen <= self->max : self->behind == 0;
}

bool line_choice_is_counted(const struct line_choice *self) {
  return self->bytes <= LINE_CHOICE_COUNTED;
}

static size_t mark_length(const struct line_choice *self) {
  return self->first == 1 && utf8_is_marked(self->text.bytes, self->text.length) ? UTF8_MARK_LENGTH
                                                                                 : 0;
}

const char *line_choice_text(const struct line_choice *self, size_t *length) {
  const size_t mark = mark_length(self);
  *length = self->text.length - mark;
  return *length > 0 ? self->text.bytes + mark : "";
}

uint64_t line_choice_length(const struct line_choice *self) {
  return self->chosen - mark_length(self);
}

/* --- the lines ------------------------------------------------------------------------------- */

static char *put_number(char *to, uint64_t number, size_t width) {
  memset(to, ' ', width);
  to = decimal_write(to + width - decimal_length(number), number);
  *to++ = '\t';
  return to;
}

/* Reserves space for all lines at once, because a growing buffer may take twice as much. */
static void add_numbered(struct buffer *to, const struct line_choice *choice, const char *text,
                         size_t length) {
  const char *end = text + length;
  const uint64_t last = choice->place == LINE_CHOICE_BEHIND ? choice->last : choice->ends + 1;
  const size_t width = decimal_length(line_choice_is_counted(choice) ? choice->ends + 1 : last);
  const size_t added = length + (size_t)(last - choice->first + 1) * (width + 1);
  char *at = buffer_space(to, added);
  for (uint64_t number = choice->first; number <= last; number++) {
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    const char *next = newline != NULL ? newline + 1 : end;
    at = put_number(at, number, width);
    memcpy(at, text, (size_t)(next - text));
    at += next - text;
    text = next;
  }
  to->length += added;
}

int line_range_add(const struct line_choice *choice, bool numbered, struct buffer *to,
                   struct error *error) {
  size_t length;
  const char *text = line_choice_text(choice, &length);
  CHECK(length == line_choice_length(choice));
  if (line_range_check(text, length, error) != 0)
    return -1;
  if (numbered && choice->place != LINE_CHOICE_BEFORE)
    add_numbered(to, choice, text, length);
  else
    buffer_add(to, text, length);
  return 0;
}
