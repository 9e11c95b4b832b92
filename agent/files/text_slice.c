#include "agent/files/text_slice.h"

#include <string.h>

#include "wire/memory.h"
#include "wire/utf8.h"

bool text_slice_is_marked(const char *content, size_t length) {
  return length >= TEXT_SLICE_MARK_LENGTH &&
         memcmp(content, TEXT_SLICE_MARK, TEXT_SLICE_MARK_LENGTH) == 0;
}

/* Length of the line at the beginning; 0 at the end of the text. */
static size_t line_length(const char *text, size_t length) {
  const char *end = length == 0 ? NULL : memchr(text, '\n', length);
  return end == NULL ? length : (size_t)(end - text) + 1;
}

/* How many bytes the next lines have, up to `most`; counts these. */
static size_t step_over(const char *text, size_t length, uint64_t most, size_t *lines) {
  size_t at = 0;
  for (*lines = 0; *lines < most && at < length; (*lines)++)
    at += line_length(text + at, length - at);
  return at;
}

int text_slice_cut(struct text_slice *self, const char *content, size_t length, int64_t start_line,
                   int64_t line_count, struct error *error) {
  if (text_slice_is_marked(content, length)) {
    content += TEXT_SLICE_MARK_LENGTH;
    length -= TEXT_SLICE_MARK_LENGTH;
  }
  if (utf8_valid_prefix(content, length) != length)
    return error_set(error, "binary or non-UTF-8 content not supported");
  uint64_t before = start_line < 1 ? 0 : (uint64_t)start_line - 1;
  uint64_t most = line_count < 1 ? UINT64_MAX : (uint64_t)line_count;
  size_t lines_before;
  size_t lines;
  size_t lines_after;
  size_t at = step_over(content, length, before, &lines_before);
  self->text = content + at;
  self->length = step_over(self->text, length - at, most, &lines);
  at += self->length;
  (void)step_over(content + at, length - at, UINT64_MAX, &lines_after);
  self->first_line = lines_before + 1;
  self->last_line = lines_before + lines + lines_after;
  return 0;
}

static size_t digits(size_t number) {
  size_t count = 1;
  for (; number >= 10; number /= 10)
    count++;
  return count;
}

static char *put_number(char *to, size_t number, size_t width) {
  memset(to, ' ', width);
  char *digit = to + width;
  do {
    *--digit = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  to[width] = '\t';
  return to + width + 1;
}

char *text_slice_number(const struct text_slice *self, size_t *length) {
  size_t width = digits(self->last_line);
  size_t lines;
  (void)step_over(self->text, self->length, UINT64_MAX, &lines);
  char *numbered = memory_allocate(self->length + lines * (width + 1) + 1);
  char *to = numbered;
  size_t at = 0;
  for (size_t i = 0; i < lines; i++) {
    size_t n = line_length(self->text + at, self->length - at);
    to = put_number(to, self->first_line + i, width);
    memcpy(to, self->text + at, n);
    to += n;
    at += n;
  }
  *length = (size_t)(to - numbered);
  return numbered;
}
