#pragma once

#include "tests/support/job.h"

/*
 * An agent in a control group of version 2 whose files are the test's, so that the container has
 * the memory and the tasks that the test says. Needs root.
 *
 *   FAKED_TEST(the_agent_sees_the_files) {
 *     struct job *job = faked_group_start(faked, "pids.current=00000010\n", NULL);
 *     faked_group_write(faked, "pids.current", "%08d\n", 11);
 *   }
 */
#define FAKED_FILES_MAX 4

struct faked_group {
  struct job *job;
  char path[64];
  const char *files[FAKED_FILES_MAX + 1]; /* as of faked_group_start */
};

int faked_group_set_up(void **state);
int faked_group_tear_down(void **state);
#define FAKED_TEST(NAME)                                                                           \
  TEST_WITH(struct faked_group *faked, NAME, faked_group_set_up, faked_group_tear_down)

/* Starts the agent. The container has 100 MiB, of which 10,000,000 bytes are used. The arguments
   are further files, "name=content", up to NULL. */
struct job *faked_group_start(struct faked_group *self, ...) __attribute__((sentinel));

/* Writes a file, after the first step of the agent. A new text is as long as the old one, so that a
   reader never sees half of it. */
void faked_group_write(const struct faked_group *self, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
