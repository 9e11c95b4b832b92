#ifndef TESTS_SUPPORT_CHANGES_H
#define TESTS_SUPPORT_CHANGES_H

#include <sys/types.h>

#include "tests/support/tree.h"

/* A process that changes the existing directory `d` of the tree and its content as fast as it can.
   It ends with the test. */
pid_t changes_start(const struct tree *tree);
void changes_stop(pid_t changes);

#endif
