/*
 * Slices of a file against the file itself, which is walked line by line. The first two bytes are
 * the first line and the number of lines that are asked for, signed; the rest is the file.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/files/text_slice.h"
#include "wire/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool promise) {
  if (!promise)
    abort();
}

/* What a reader of numbered lines does: takes off a number and a tab, and has the line. */
static void check_numbers(const struct text_slice *slice) {
  size_t length;
  char *numbered = text_slice_number(slice, &length);
  size_t at = 0;
  size_t from = 0;
  size_t width = 1;
  for (size_t rest = slice->last_line; rest >= 10; rest /= 10)
    width++;
  for (size_t line = slice->first_line; from < slice->length; line++) {
    size_t number = 0;
    demand(length - at > width);
    for (size_t i = 0; i < width; i++) {
      char digit = numbered[at + i];
      demand(digit == ' ' ? number == 0 && i + 1 < width : digit >= '0' && digit <= '9');
      number = digit == ' ' ? 0 : number * 10 + (size_t)(digit - '0');
    }
    demand(number == line && numbered[at + width] == '\t');
    at += width + 1;
    char byte;
    do {
      demand(at < length);
      byte = numbered[at++];
      demand(byte == slice->text[from++]);
    } while (byte != '\n' && from < slice->length);
  }
  demand(at == length);
  free(numbered);
}

/* Byte by byte, which line each belongs to says whether it is in the slice. */
static void check_cut(const struct text_slice *slice, const char *text, size_t length,
                      int64_t start, int64_t count) {
  size_t line = 0;
  size_t taken = 0;
  bool at_begin = true;
  int64_t first = start < 1 ? 1 : start;
  for (size_t i = 0; i < length; i++) {
    line += at_begin;
    at_begin = text[i] == '\n';
    if ((int64_t)line < first || (count >= 1 && (int64_t)line - first >= count))
      continue;
    demand(slice->text + taken == text + i);
    taken++;
  }
  demand(slice->length == taken && slice->last_line == line);
  demand(taken == 0 || slice->first_line == (size_t)first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  /* A copy of its own, so that a byte too much is noticed. */
  size_t length = size - 2;
  char *content = malloc(length > 0 ? length : 1);
  demand(content != NULL);
  memcpy(content, data + 2, length);
  int64_t start = data[0] < 128 ? data[0] : data[0] - 256;
  int64_t count = data[1] < 128 ? data[1] : data[1] - 256;
  struct text_slice slice;
  struct error error = {.text = ""};
  int result = text_slice_cut(&slice, content, length, start, count, &error);
  size_t mark = length >= 3 && memcmp(content, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
  demand((result == 0) == (utf8_valid_prefix(content, length) == length));
  demand((result == 0) == (error.text[0] == '\0'));
  if (result == 0) {
    check_cut(&slice, content + mark, length - mark, start, count);
    check_numbers(&slice);
  }
  free(content);
  return 0;
}
