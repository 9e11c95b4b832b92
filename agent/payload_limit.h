#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Returns the longest payload of a step that is accepted, in bytes: STEP_PAYLOAD_MAX, or an eighth
   of the memory limit if that is less, but at least PAYLOAD_LIMIT_MIN. The memory limit is the
   lowest of the container's (its control group) and this process's (RLIMIT_AS, RLIMIT_DATA). A
   payload needs up to four times its size (PROTOCOL.md), and the steps need memory, too. The limits
   are read at the first call. */
size_t payload_limit(void);
#define PAYLOAD_LIMIT_MIN ((size_t)64 * 1024)

/* Whether `more` bytes may be added to the `held` bytes of what runs. Large payloads wait for each
   other. */
bool payload_limit_has_capacity(size_t held, size_t more);

/* Sets the error of a longer payload. */
void payload_limit_error(struct error *error);
