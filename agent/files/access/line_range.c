#include "agent/files/access/line_range.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
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

uint64_t line_range_newlines(const char *text, size_t length) {
  const char *end = text + length;
  uint64_t count = 0;
  while (text < end && (text = memchr(text, '\n', (size_t)(end - text))) != NULL) {
    count++;
    text++;
  }
  return count;
}

/* --- the choice ------------------------------------------------------------------------------ */

void line_choice_init(struct line_choice *self, const struct line_range *range, size_t max) {
  const uint64_t first = range->start_line > 0 ? range->start_line : 1;
  *self = (struct line_choice){.first = first,
                               .last = range->line_count > 0 ? first + range->line_count - 1
                                                             : UINT64_MAX,
                               .max = max};
}

void line_choice_release(struct line_choice *self) {
  buffer_release(&self->text);
}

/* Whether the range has not begun yet, or has ended. */
static bool is_before(const struct line_choice *self) {
  return self->ends + 1 < self->first;
}

static bool is_behind(const struct line_choice *self) {
  return self->ends >= self->last;
}

void line_choice_add(struct line_choice *self, const char *piece, size_t length) {
  const char *end = piece + length, *from = NULL, *to = NULL; /* the chosen part */
  self->bytes += length;
  for (const char *at = piece, *next; at < end; at = next) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    next = newline != NULL ? newline + 1 : end;
    if (is_behind(self)) {
      self->behind += (size_t)(next - at);
    } else if (!is_before(self)) {
      from = from != NULL ? from : at;
      to = newline != NULL && self->ends + 1 == self->last ? newline : next;
    }
    self->ends += newline != NULL;
    self->newest = next[-1];
  }
  const size_t chosen = from != NULL ? (size_t)(to - from) : 0;
  const size_t capacity = self->max - self->text.length;
  buffer_add(&self->text, from, chosen < capacity ? chosen : capacity);
  self->chosen += chosen;
}

bool line_choice_goes_on(const struct line_choice *self) {
  if (self->bytes <= LINE_CHOICE_COUNTED || is_before(self))
    return true;
  return is_behind(self) ? self->behind == 0 : self->chosen <= self->max;
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

/* Adds lines that must be text. */
static int add_shown(struct buffer *to, const char *text, size_t length, struct error *error) {
  if (line_range_check(text, length, error) != 0)
    return -1;
  buffer_add(to, text, length);
  return 0;
}

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
  const uint64_t last = is_behind(choice) ? choice->last : choice->ends + 1;
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
  if (!numbered || is_before(choice))
    return add_shown(to, text, length, error);
  if (line_range_check(text, length, error) != 0)
    return -1;
  add_numbered(to, choice, text, length);
  return 0;
}

/* --- a page ---------------------------------------------------------------------------------- */

static_assert(LINE_PAGE_KEPT == LINE_PAGE_MAX + 1 + UTF8_MARK_LENGTH,
              "one byte more shows that the text is longer");

static uint64_t count_lines(const struct line_choice *choice) {
  return choice->ends + (choice->bytes > 0 && choice->newest != '\n');
}

static int reject_offset(const struct line_choice *choice, struct error *error) {
  const uint64_t total = count_lines(choice);
  return error_set(error, "offset %" PRIu64 " is past the end of the file (%" PRIu64 " %s)",
                   choice->first, total, total == 1 ? "line" : "lines");
}

/* Says how to read the rest of a line of which `length` bytes are shown, since no tool can. */
static void add_mid_line(const struct line_choice *choice, uint64_t line, size_t length,
                         const char *total, struct buffer *to) {
  const bool is_last = line_choice_is_counted(choice) && count_lines(choice) == line;
  buffer_add_format(to,
                    "\n... (truncated mid-line %" PRIu64 " of %s; execute for the rest of it: "
                    "sed -n %" PRIu64 "p FILE | tail -c +%zu | head -c 50000",
                    line, total, line, length + 1);
  if (!is_last)
    buffer_add_format(to, "; continue with offset=%" PRIu64, line + 1);
  buffer_add_string(to, ")");
}

/* Adds as many whole lines as fit, or else the beginning of the first line. */
static int add_truncated(const struct line_choice *choice, const char *text, const char *total,
                         struct buffer *to, struct error *error) {
  const char *cut = memrchr(text, '\n', LINE_PAGE_MAX + 1);
  const size_t length = cut != NULL ? (size_t)(cut - text) : utf8_cut(text, LINE_PAGE_MAX);
  if (add_shown(to, text, length, error) != 0)
    return -1;
  const uint64_t last = choice->first + line_range_newlines(text, length);
  if (cut != NULL)
    buffer_add_format(
        to, "\n... (truncated at line %" PRIu64 " of %s; continue with offset=%" PRIu64 ")", last,
        total, last + 1);
  else
    add_mid_line(choice, last, length + (size_t)(text - choice->text.bytes), total, to);
  return 0;
}

int line_page_add(const struct line_choice *choice, struct buffer *to, struct error *error) {
  size_t length;
  const char *text = line_choice_text(choice, &length);
  const bool reaches_end = !is_behind(choice);
  const bool is_all = choice->first == 1 && choice->last == UINT64_MAX;
  if (reaches_end && choice->chosen == 0 && choice->first > 1)
    return reject_offset(choice, error);
  if (is_all && length <= LINE_PAGE_MAX)
    return add_shown(to, text, length, error);
  if (reaches_end && length == line_choice_length(choice) && length > 0 && text[length - 1] == '\n')
    length--;
  char total[DECIMAL_LENGTH_MAX + 1] = "more";
  if (line_choice_is_counted(choice))
    (void)snprintf(total, sizeof total, "%" PRIu64, count_lines(choice));
  if (length > LINE_PAGE_MAX)
    return add_truncated(choice, text, total, to, error);
  if (add_shown(to, text, length, error) != 0)
    return -1;
  if (choice->behind > 0)
    buffer_add_format(
        to, "\n... (showing lines %" PRIu64 "-%" PRIu64 " of %s; continue with offset=%" PRIu64 ")",
        choice->first, choice->last, total, choice->last + 1);
  return 0;
}
