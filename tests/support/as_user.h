#pragma once

#include <sys/types.h>

#include "base/error.h"

/* Runs a part of a test as another user, to test the rights of files. */

/* The ids of the user and the group "nobody". */
#define NOBODY 65534

/* Calls `work` in a child process of this user, with one group and no capabilities. Returns the
   result of `work` and its error. Needs root. Changes of memory stay in the child. */
int as_user(uid_t user, gid_t group, int (*work)(void *context, struct error *error), void *context,
            struct error *error);
