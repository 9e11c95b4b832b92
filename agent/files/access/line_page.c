#include "agent/files/access/line_page.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/utf8.h"

static_assert(LINE_PAGE_KEPT == LINE_PAGE_MAX + 1 + UTF8_MARK_LENGTH,
              "one byte more shows that the text is longer");

static uint64_t count_lines(const struct line_choice *choice) {
  return choice->ends + (choice->bytes > 0 && choice->newest != '\n');
}

static uint64_t count_newlines(const char *at, const char *end) {
  uint64_t count = 0;
  while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
    count++;
    at++;
  }
  return count;
}

static int reject_offset(const struct line_choice *choice, struct error *error) {
  const uint64_t total = count_lines(choice);
  return error_set(error, "offset %" PRIu64 " is past the end of the file (%" PRIu64 " %s)",
                   choice->first, total, total == 1 ? "line" : "lines");
}

static int add_shown(struct buffer *to, const char *text, size_t length, struct error *error) {
  if (line_range_check(text, length, error) != 0)
    return -1;
  buffer_add(to, text, length);
  return 0;
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
  const uint64_t last = choice->first + count_newlines(text, text + length);
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
  const bool reaches_end = choice->place != LINE_CHOICE_BEHIND;
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
