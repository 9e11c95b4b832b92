#include "agent/kinds/kinds.h"

#include <stddef.h>

#define ADDRESS(kind) &(kind),
#define KIND_ADDRESS(name) ADDRESS(name##_kind.wire)

const struct step_kind *const kinds[] = {KINDS(KIND_ADDRESS) ADDRESS(step_shutdown)
                                             ADDRESS(step_cancel) NULL};
