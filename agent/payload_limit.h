#ifndef AGENT_PAYLOAD_LIMIT_H
#define AGENT_PAYLOAD_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The longest payload of a step that is taken, in bytes: STEP_PAYLOAD_MAX, or where a control group
   (version 1 or 2) limits this container's memory, or a resource limit that of this process
   (RLIMIT_AS, RLIMIT_DATA), one PAYLOAD_LIMIT_SHARE-th of the lowest limit when that is less. A
   payload needs up to four times its size (PROTOCOL.md), and the steps need memory too. Steps that
   wait are held in memory up to the same number of bytes. */
#define PAYLOAD_LIMIT_SHARE 8

/* The lowest, whatever the limit of the memory. */
#define PAYLOAD_LIMIT_MIN ((size_t)64 * 1024)

/* Read once, with the first call. */
size_t payload_limit(void);

/* Whether so many more bytes may be held by what runs, where `held` are: large ones wait for each
   other. */
bool payload_limit_has_capacity(size_t held, size_t more);

/* Sets the error of a payload that is longer. */
void payload_limit_error(struct error *error);

/* Where the control group may have so many bytes; UINT64_MAX: any number. */
size_t payload_limit_for(uint64_t group_bytes);

#endif
