/* The first line is a path, that of a directory if it ends in "/"; the others are an ignore file.
   The last line that matches by itself decides. */
#include "agent/files/glob/glob.h"
#include "tests/fuzz/fuzz.h"

static enum globs_verdict judge(const char *text, size_t length, const char *path,
                                size_t path_length) {
  bool is_too_long;
  struct globs *rules = globs_of_ignore_file(text, length, &is_too_long);
  demand(rules == NULL || !is_too_long);
  bool is_directory = path_length > 0 && path[path_length - 1] == '/';
  enum globs_verdict verdict = GLOBS_SILENT;
  if (rules != NULL)
    verdict = globs_classify(rules, path, path_length - is_directory, is_directory);
  globs_free(rules);
  return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *copy = malloc(size + 1); /* of the exact size, so that reads beyond it are noticed */
  demand(copy != NULL);
  if (size > 0)
    memcpy(copy, data, size);
  const char *newline = size > 0 ? memchr(copy, '\n', size) : NULL;
  size_t path_length = newline != NULL ? (size_t)(newline - copy) : size;
  const char *text = copy + path_length + (newline != NULL);
  size_t length = size - path_length - (newline != NULL);
  enum globs_verdict verdict = GLOBS_SILENT;
  for (size_t at = 0; at < length;) {
    const char *end = memchr(text + at, '\n', length - at);
    size_t line = end != NULL ? (size_t)(end + 1 - text) - at : length - at;
    enum globs_verdict one = judge(text + at, line, copy, path_length);
    verdict = one != GLOBS_SILENT ? one : verdict;
    at += line;
  }
  bool has_mark =
      memmem(text, length, "\n\xEF\xBB\xBF", 4) != NULL; /* part of a name in an ignore file */
  demand(has_mark || judge(text, length, copy, path_length) == verdict);
  free(copy);
  return 0;
}
