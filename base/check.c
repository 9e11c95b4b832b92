#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *file, int line, const char *expression) {
  (void)fprintf(stderr, "%s:%d: this must hold: %s\n", file, line, expression);
  abort();
}
