#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void memory_exhausted(const char *what) {
  (void)fprintf(stderr, "out of memory: cannot allocate %s\n", what);
  (void)fflush(stderr); /* the client buffers it */
  _exit(MEMORY_EXHAUSTED_EXIT);
}

void *memory_resize(void *old, size_t size) {
  /* For a size of 0, NULL may be no failure. */
  void *memory = realloc(old, size > 0 ? size : 1);
  if (memory == NULL) {
    char what[40];
    (void)snprintf(what, sizeof what, "%zu bytes", size);
    memory_exhausted(what);
  }
  return memory;
}

void *memory_allocate(size_t size) {
  return memory_resize(NULL, size);
}

void *memory_zeros(size_t size) {
  return memset(memory_allocate(size), 0, size);
}

char *memory_format_list(const char *format, va_list arguments) {
  char *text;
  if (vasprintf(&text, format, arguments) < 0)
    memory_exhausted("a buffer");
  return text;
}

char *memory_format(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *text = memory_format_list(format, arguments);
  va_end(arguments);
  return text;
}

char *memory_copy(const char *text, size_t length) {
  char *copy = memory_allocate(length + 1);
  if (length > 0)
    memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}
