#include "base/variable.h"

#include <stdlib.h>
#include <string.h>

const char *variable_read(const char *name) {
  char *value = getenv(name);
  size_t length = value != NULL ? strlen(value) : 0;
  if (length > 0 && value[length - 1] == '\n') {
    length -= length > 1 && value[length - 2] == '\r' ? 2 : 1;
    value[length] = '\0';
  }
  return length > 0 ? value : NULL;
}
