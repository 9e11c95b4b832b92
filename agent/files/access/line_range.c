#include "agent/files/access/line_range.h"

#include <stdint.h>
#include <string.h>

#include "base/decimal.h"
#include "base/utf8.h"

struct chosen_lines {
  const char *from;
  const char *until; /* the `\n` of the last one, or the end of the text */
  size_t first;      /* its number */
  size_t count;
};

/* The `\n` of a line, or the end of the text. */
static const char *line_end(const char *line, const char *end) {
  const char *newline = memchr(line, '\n', (size_t)(end - line));
  return newline == NULL ? end : newline;
}

static size_t count_ends(const char *at, const char *end) {
  size_t count = 0;
  for (; (at = line_end(at, end)) < end; at++)
    count++;
  return count;
}

/* The lines that were asked for; false where there are none. */
static bool choose(struct chosen_lines *chosen, const struct line_range *range, const char *content,
                   const char *end) {
  size_t first = range->start_line > 0 ? range->start_line : 1;
  size_t max = range->line_count > 0 ? range->line_count : SIZE_MAX;
  *chosen = (struct chosen_lines){.from = content, .first = 1, .count = 1};
  for (; chosen->first < first; chosen->first++) {
    const char *newline = line_end(chosen->from, end);
    if (newline == end)
      return false;
    chosen->from = newline + 1;
  }
  chosen->until = line_end(chosen->from, end);
  for (; chosen->until < end && chosen->count < max; chosen->count++)
    chosen->until = line_end(chosen->until + 1, end);
  return true;
}

static char *put_number(char *to, size_t number, size_t width) {
  memset(to, ' ', width);
  to = decimal_write(to + width - decimal_length(number), number);
  *to++ = '\t';
  return to;
}

/* Makes room for all lines at once: a buffer that grows may take twice as much. */
static void add_numbered(struct buffer *text, const struct chosen_lines *chosen, size_t width) {
  const char *from = chosen->from;
  size_t added = (size_t)(chosen->until - from) + chosen->count * (width + 1);
  char *to = buffer_space(text, added);
  for (size_t i = 0; i < chosen->count; i++) {
    const char *newline = line_end(from, chosen->until);
    size_t length = (size_t)(newline - from) + (newline < chosen->until);
    to = put_number(to, chosen->first + i, width);
    memcpy(to, from, length);
    to += length;
    from += length;
  }
  text->length += added;
}

int line_range_check(const char *content, size_t length, struct error *error) {
  return utf8_valid_prefix(content, length) == length
             ? 0
             : error_set(error, "binary or non-UTF-8 content not supported");
}

int line_range_cut(const struct line_range *self, const char *content, size_t length,
                   struct buffer *to, struct error *error) {
  if (line_range_check(content, length, error) != 0)
    return -1;
  if (length == 0)
    content = "";
  const char *end = content + length;
  if (utf8_is_marked(content, length))
    content += UTF8_MARK_LENGTH;
  struct chosen_lines chosen;
  if (self->start_line == 0 && self->line_count == 0 && !self->numbered)
    buffer_add(to, content, (size_t)(end - content));
  else if (!choose(&chosen, self, content, end))
    return 0;
  else if (self->numbered)
    add_numbered(to, &chosen,
                 decimal_length(chosen.first + chosen.count - 1 + count_ends(chosen.until, end)));
  else
    buffer_add(to, chosen.from, (size_t)(chosen.until - chosen.from));
  return 0;
}
