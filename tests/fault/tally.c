#include "tests/fault/tally.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void tally_find(struct tally *self, enum tally_kind kind, long count, const char *format, ...) {
  static const char *const names[TALLY_KINDS] = {"lost", "doubled", "out of order", "wrong"};
  if (count == 0)
    return;
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "%s: %s\n", names[kind], text);
  bool gravest = true;
  for (size_t i = 0; i <= kind; i++)
    gravest = gravest && self->found[i] == 0;
  if (gravest)
    snprintf(self->gravest, sizeof self->gravest, "%s: %s", names[kind], text);
  self->found[kind] += count;
}

bool tally_is_clean(const struct tally *self) {
  for (size_t i = 0; i < TALLY_KINDS; i++) {
    if (self->found[i] != 0)
      return false;
  }
  return true;
}

void tally_add(struct tally *self, const struct tally *other) {
  self->cuts += other->cuts;
  for (size_t i = 0; i < TALLY_KINDS; i++)
    self->found[i] += other->found[i];
}
