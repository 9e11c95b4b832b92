#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

int error_set(struct error *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(self->text, sizeof self->text, format, arguments);
  va_end(arguments);
  return -1;
}
