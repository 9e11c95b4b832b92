#include "tests/support/marks.h"
#include "tests/test.h"

int marks_count(const char *path) {
  FILE *file = fopen(path, "re");
  int lines = 0;
  for (int c; file != NULL && (c = fgetc(file)) != EOF;)
    lines += c == '\n';
  if (file != NULL)
    fclose(file);
  return lines;
}

void marks_open_gate(const char *path) {
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  fclose(file);
}
