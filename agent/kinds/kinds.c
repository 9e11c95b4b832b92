#include "agent/kinds/kinds.h"

#include <stddef.h>

#define ADDRESS(kind) &(kind),
#define KIND_ADDRESS(name) ADDRESS(name##_kind.wire)

const struct step_kind *const kinds[] = {KINDS(KIND_ADDRESS) ADDRESS(step_shutdown)
                                             ADDRESS(step_cancel) NULL};

int kinds_work(char *packed, size_t length) {
  return kind_work_packed(kinds, packed, length);
}
