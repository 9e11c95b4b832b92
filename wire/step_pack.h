#ifndef WIRE_STEP_PACK_H
#define WIRE_STEP_PACK_H

#include <stddef.h>

#include "base/buffer.h"
#include "wire/step.h"

/*
 * A step from one process of this program to another one of the same build: what step_parse has made
 * of it, in the order of its tables, without a check.
 */

/* Adds it; the kind is one of `kinds`, which is as for step_parse. */
void step_pack(const struct step *self, const struct step_kind *const *kinds, struct buffer *out);

/* Its texts stay in `packed`, which the caller may change only after step_unpack_release. Returns 0, or
   -1 when these bytes are no whole step; either way the caller ends with step_unpack_release. */
int step_unpack(struct step *self, const struct step_kind *const *kinds, char *packed,
                size_t length);
void step_unpack_release(struct step *self);

#endif
