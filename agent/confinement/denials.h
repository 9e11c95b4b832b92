#pragma once

#include <stddef.h>

#include "agent/confinement/confinement.h"

/*
 * Finds out what a sandbox policy has denied to a step that failed. The kernel does not report it
 * to an unprivileged process, so the step's own messages are searched. The hard part is to tell the
 * policy from the rights of the file system, which fail with the same errno. The engine calls it
 * when the step is over.
 */

/* Searches the end of the step's output, of which secrets are masked. A file that the policy does
   not allow is a denial; it is certain if the rights of the file system allow the access. Never
   waits for a file system: what the kernel does not have in memory is uncertain. `fence` is the
   step's, or NULL, and `directory` the absolute one in which it began. Adds to the plan's report,
   whose paths denials_release frees. */
void denials_find(struct confinement_plan *plan, const struct confinement *confinement,
                  const struct policy_fence *fence, const char *directory, const char *output,
                  size_t length);

/* Adds a denial, unless it is there already or there are enough. The path is copied; NULL: the
   access has none. */
void denials_add(struct confinement_plan *plan, enum step_access access, const char *path,
                 bool is_certain);

void denials_release(struct confinement_plan *plan);
