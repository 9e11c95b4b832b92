#ifndef TESTS_SUPPORT_AS_USER_H
#define TESTS_SUPPORT_AS_USER_H

#include <sys/types.h>

#include "base/error.h"

/* Nobody's ids, user and group. */
#define NOBODY 65534

/*
 * Calls `work` in a child that is this user, for good, with one group and no capabilities, and
 * returns what it returned, and its error. Needs root. What it changes in memory, the child alone
 * has.
 */
int as_user(uid_t user, gid_t group, int (*work)(void *context, struct error *error), void *context,
            struct error *error);

#endif
