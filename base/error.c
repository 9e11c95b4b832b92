#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

#define ELLIPSIS "\u2026"

/* Bytes of a long text that stay at its beginning: more than a reason has without a path. */
#define HEAD ((size_t)100)

/* The text is longer than the buffer. */
static void cut(char *out, size_t size, const char *text, size_t length) {
  const char *tail = text + length - (size - 1 - HEAD - strlen(ELLIPSIS));
  const char *last = tail + 3; /* a character has no more bytes after its first */
  const char *begin = tail;
  while (begin < last && (*begin & 0xC0) == 0x80)
    begin++;
  (void)snprintf(out, size, "%.*s" ELLIPSIS "%s", (int)utf8_cut(text, HEAD), text, begin);
}

int error_set(struct error *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(self->text, sizeof self->text, format, arguments);
  va_end(arguments);
  if (length < (int)sizeof self->text)
    return -1;
  char *text;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0)
    memory_exhausted("a buffer");
  va_end(arguments);
  cut(self->text, sizeof self->text, text, (size_t)length);
  free(text);
  return -1;
}
