#include "tests/support/quoted.h"

#include "tests/test.h"

enum { TEXTS = 32, SIZE = 4096 };

void quoted_in_place(char *text) {
  for (; *text != '\0'; text++)
    *text = *text == '\'' ? '"' : *text == '`' ? '\'' : *text;
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
