#include "agent/files/access/line_range.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

bool line_range_is_marked(const char *content, size_t length) {
  return length >= LINE_RANGE_MARK_LENGTH &&
         memcmp(content, LINE_RANGE_MARK, LINE_RANGE_MARK_LENGTH) == 0;
}

static const char *line_end(const char *line, const char *end) {
  const char *newline = memchr(line, '\n', (size_t)(end - line));
  return newline == NULL ? end : newline + 1;
}

/* The end of the next lines, at most `max` of them; *lines is how many there were. */
static const char *skip_lines(const char *at, const char *end, size_t max, size_t *lines) {
  for (*lines = 0; *lines < max && at < end; (*lines)++)
    at = line_end(at, end);
  return at;
}

static size_t digits(size_t number) {
  size_t count = 1;
  for (; number >= 10; number /= 10)
    count++;
  return count;
}

static char *put_number(char *to, size_t number, size_t width) {
  memset(to, ' ', width);
  for (char *digit = to + width; number > 0; number /= 10)
    *--digit = (char)('0' + number % 10);
  to[width] = '\t';
  return to + width + 1;
}

/* Makes room for all lines at once: a buffer that grows may take twice as much. */
static void add_numbered(struct buffer *text, const char *from, const char *until, size_t first,
                         size_t lines, size_t width) {
  size_t added = (size_t)(until - from) + lines * (width + 1);
  char *to = buffer_space(text, added);
  for (size_t number = first; from < until; number++) {
    size_t length = (size_t)(line_end(from, until) - from);
    to = put_number(to, number, width);
    memcpy(to, from, length);
    to += length;
    from += length;
  }
  text->length += added;
}

int line_range_cut(const struct line_range *self, const char *content, size_t length,
                   struct buffer *to, struct error *error) {
  if (utf8_valid_prefix(content, length) != length)
    return error_set(error, "binary or non-UTF-8 content not supported");
  if (length == 0)
    return 0;
  const char *end = content + length;
  if (line_range_is_marked(content, length))
    content += LINE_RANGE_MARK_LENGTH;
  size_t before;
  size_t lines;
  size_t after;
  const char *from =
      skip_lines(content, end, self->start_line > 0 ? self->start_line - 1 : 0, &before);
  const char *until =
      skip_lines(from, end, self->line_count > 0 ? self->line_count : SIZE_MAX, &lines);
  if (!self->numbered || from == until) {
    buffer_add(to, from, (size_t)(until - from));
    return 0;
  }
  (void)skip_lines(until, end, SIZE_MAX, &after);
  add_numbered(to, from, until, before + 1, lines, digits(before + lines + after));
  return 0;
}
