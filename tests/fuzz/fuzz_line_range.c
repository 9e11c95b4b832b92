/* Ranges of a file against the file itself, which is read line by line. The first byte is the first
   line and whether lines are numbered, the second the number of lines, the third the size of the
   pieces in which the rest arrives, which is the file. */
#include "agent/files/access/line_range.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"

/* Skips a number of this width and a tab; returns their length. */
static size_t check_number(const char *text, size_t length, size_t width, size_t expected) {
  size_t number = 0;
  demand(length > width);
  for (size_t i = 0; i < width; i++) {
    demand(text[i] == ' ' ? number == 0 && i + 1 < width : text[i] >= '0' && text[i] <= '9');
    number = text[i] == ' ' ? 0 : number * 10 + (size_t)(text[i] - '0');
  }
  demand(number == expected && text[width] == '\t');
  return width + 1;
}

static size_t width_of_last(const char *text, size_t length) {
  size_t lines = 1;
  size_t width = 1;
  for (size_t i = 0; i < length; i++)
    lines += text[i] == '\n';
  for (; lines >= 10; lines /= 10)
    width++;
  return width;
}

/* Compares line by line: the slice has consecutive lines, separated by newlines. */
static void check(const struct line_range *slice, const char *text, size_t length,
                  const struct buffer *cut) {
  if (slice->start_line == 0 && slice->line_count == 0 && !slice->numbered) {
    demand(cut->length == length && (length == 0 || memcmp(cut->bytes, text, length) == 0));
    return;
  }
  size_t width = width_of_last(text, length);
  size_t at = 0;
  size_t first = slice->start_line > 0 ? slice->start_line : 1;
  size_t begin = 0;
  for (size_t line = 1; begin <= length; line++) {
    size_t end = begin;
    while (end < length && text[end] != '\n')
      end++;
    if (line >= first && (slice->line_count == 0 || line - first < slice->line_count)) {
      if (line > first)
        demand(at < cut->length && cut->bytes[at++] == '\n');
      if (slice->numbered)
        at += check_number(cut->bytes + at, cut->length - at, width, line);
      demand(at + (end - begin) <= cut->length);
      demand(end == begin || memcmp(cut->bytes + at, text + begin, end - begin) == 0);
      at += end - begin;
    }
    begin = end + 1;
  }
  demand(at == cut->length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3)
    return 0;
  /* A separate copy, so that reads beyond it are noticed. */
  size_t length = size - 3, piece = data[2] % 64 + 1;
  char *content = malloc(length > 0 ? length : 1);
  demand(content != NULL);
  memcpy(content, data + 3, length);
  const struct line_range range = {data[0] & 0x7f, data[1], (data[0] & 0x80) != 0};
  struct line_choice choice;
  struct buffer text = {0};
  struct error error = {.text = ""};
  line_choice_init(&choice, &range, length);
  for (size_t at = 0; at < length; at += piece)
    line_choice_add(&choice, content + at, piece < length - at ? piece : length - at);
  int result = line_range_add(&choice, range.numbered, &text, &error);
  size_t mark = length >= 3 && memcmp(content, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
  demand(result == 0 || utf8_valid_prefix(content, length) < length);
  demand((result == 0) == (error.text[0] == '\0'));
  if (result == 0)
    check(&range, content + mark, length - mark, &text);
  demand(result == 0 || text.length == 0);
  line_choice_release(&choice);
  buffer_release(&text);
  free(content);
  return 0;
}
