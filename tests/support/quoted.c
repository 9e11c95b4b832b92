#include "tests/support/quoted.h"

#include "tests/test.h"

enum { TEXTS = 32, SIZE = 16384 };

void quoted_bytes(char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    bytes[i] = bytes[i] == '\'' ? '"' : bytes[i] == '`' ? '\'' : bytes[i];
}

void quoted_in_place(char *text) {
  quoted_bytes(text, strlen(text));
}

static char *next_text(void) {
  static char texts[TEXTS][SIZE];
  static unsigned next;
  return texts[next++ % TEXTS];
}

const char *formatted(const char *format, ...) {
  char *out = next_text();
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(out, SIZE, format, arguments);
  va_end(arguments);
  assert_in_range(length, 0, SIZE - 1);
  return out;
}

const char *quoted(const char *text) {
  char *out = next_text();
  assert_true(strlen(text) < SIZE);
  strcpy(out, text);
  quoted_in_place(out);
  return out;
}

const char *nth_word(const char *words, size_t n) {
  for (; n > 0 && words != NULL; n--) {
    words = strchr(words, ' ');
    words = words == NULL ? NULL : words + 1;
  }
  return words == NULL ? NULL : formatted("%.*s", (int)strcspn(words, " "), words);
}
