#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/memory.h"
#include "base/utf8.h"

#define ELLIPSIS "\u2026"

/* Bytes that are kept at the beginning of a long text: more than a reason without a path has. */
#define HEAD ((size_t)100)

static void cut(char *out, size_t size, const char *text, size_t length) {
  const char *tail = text + length - (size - 1 - HEAD - strlen(ELLIPSIS));
  (void)snprintf(out, size, "%.*s" ELLIPSIS "%s", (int)utf8_cut(text, HEAD), text,
                 tail + utf8_rest(tail, 3));
}

int error_set(struct error *self, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(self->text, sizeof self->text, format, arguments);
  self->code = 0;
  self->why = 0;
  if (length >= (int)sizeof self->text) {
    char *text = memory_format_list(format, again);
    cut(self->text, sizeof self->text, text, (size_t)length);
    free(text);
  }
  va_end(again);
  va_end(arguments);
  return -1;
}

const char *error_why(const struct error *self) {
  return self->text + strnlen(self->text, self->why);
}

int error_set_reason(struct error *self, const char *what, int reason) {
  struct rlimit limit;
  if (reason == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
    (void)error_set(self,
                    "%s: the open-file limit of %llu is reached; raise the hard limit with "
                    "ulimit -n",
                    what, (unsigned long long)limit.rlim_cur);
  else if (reason == ETOOMANYREFS) /* musl has no text for it */
    (void)error_set(self, "%s: processes of this user hold too many descriptors in UNIX sockets",
                    what);
  else
    (void)error_set(self, "%s: %s", what, strerror(reason));
  self->code = reason;
  return -1;
}
