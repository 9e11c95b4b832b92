#include "tests/support/quoted.h"

#include "tests/test.h"

enum { TEXTS = 32, SIZE = 4096 };

void quoted_bytes(char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    bytes[i] = bytes[i] == '\'' ? '"' : bytes[i] == '`' ? '\'' : bytes[i];
}

void quoted_in_place(char *text) {
  quoted_bytes(text, strlen(text));
}

const char *quoted(const char *text) {
  static char texts[TEXTS][SIZE];
  static unsigned next;
  char *out = texts[next++ % TEXTS];
  assert_true(strlen(text) < SIZE);
  strcpy(out, text);
  quoted_in_place(out);
  return out;
}
