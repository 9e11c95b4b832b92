#include "agent/tools/text_page.h"

#include <string.h>

#include "base/utf8.h"

static const char *next_newline(const char *at, const char *end) {
  return at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
}

static uint64_t count_newlines(const char *at, const char *end) {
  uint64_t count = 0;
  for (; (at = next_newline(at, end)) != NULL; at++)
    count++;
  return count;
}

/* The beginning of the line that is so many lines on; the end where there are fewer. */
static const char *skip_lines(const char *at, const char *end, uint64_t lines) {
  for (; lines > 0 && at < end; lines--) {
    const char *newline = next_newline(at, end);
    at = newline != NULL ? newline + 1 : end;
  }
  return at;
}

static void add_count(struct buffer *out, const char *before, uint64_t number) {
  buffer_add_string(out, before);
  buffer_add_number(out, number);
}

static void add_hint(struct buffer *out, const char *what, uint64_t last, uint64_t total) {
  add_count(out, what, last);
  add_count(out, " of ", total);
  add_count(out, "; continue with offset=", last + 1);
  buffer_add_string(out, ")");
}

/* More than fits: up to the end of the last whole line, or where there is none, within the first. */
static void add_truncated(const char *begin, uint64_t first, uint64_t total, struct buffer *out) {
  const char *cut = memrchr(begin, '\n', TEXT_PAGE_MAX + 1);
  if (cut != NULL) {
    buffer_add(out, begin, (size_t)(cut - begin));
    add_hint(out, "\n... (truncated at line ", first + count_newlines(begin, cut), total);
    return;
  }
  buffer_add(out, begin, utf8_cut(begin, TEXT_PAGE_MAX));
  add_count(out, "\n... (truncated mid-line ", first);
  add_count(out, " of ", total);
  buffer_add_string(out, ")");
}

int text_page_add(const char *text, size_t length, uint64_t offset, uint64_t limit,
                  struct buffer *out, struct error *error) {
  if (offset <= 1 && limit == 0 && length <= TEXT_PAGE_MAX) {
    buffer_add(out, text, length);
    return 0;
  }
  const char *end = length > 0 ? text + length : text;
  uint64_t total = count_newlines(text, end) + (length > 0 && end[-1] != '\n');
  uint64_t first = offset > 1 ? offset : 1;
  const char *begin = skip_lines(text, end, first - 1);
  if (begin == end && first > 1)
    return error_set(error, "offset %llu is past the end of the file (%llu %s)",
                     (unsigned long long)first, (unsigned long long)total,
                     total == 1 ? "line" : "lines");
  const char *stop = limit > 0 ? skip_lines(begin, end, limit) : end;
  bool more = stop < end;
  if (stop > begin && stop[-1] == '\n')
    stop--;
  if ((size_t)(stop - begin) > TEXT_PAGE_MAX) {
    add_truncated(begin, first, total, out);
    return 0;
  }
  buffer_add(out, begin, (size_t)(stop - begin));
  if (more) {
    add_count(out, "\n... (showing lines ", first);
    add_hint(out, "-", first + limit - 1, total);
  }
  return 0;
}
