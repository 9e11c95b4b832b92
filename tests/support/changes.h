#ifndef TESTS_SUPPORT_CHANGES_H
#define TESTS_SUPPORT_CHANGES_H

#include <sys/types.h>

#include "tests/support/tree.h"

/* A process in which a directory `d` of the tree, which is there, and what is in it come and go and
   change what they are, as fast as it can. It ends with the test. */
pid_t changes_start(const struct tree *tree);
void changes_stop(pid_t changes);

#endif
