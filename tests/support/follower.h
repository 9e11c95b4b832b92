#ifndef TESTS_SUPPORT_FOLLOWER_H
#define TESTS_SUPPORT_FOLLOWER_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/support/job.h"

/*
 * Reads a job's stream along while a step fills it, and deletes what it has read: as much may flow
 * as a test likes, Redis holds little of it. The job's other calls must not be used meanwhile.
 *
 *   follower_run(job, visit, &context);
 *
 * Calls `visit` for every event until the first `completed`, in the stream's order, and keeps the
 * most that the agent had resident.
 */
struct follower_event {
  const char *kind; /* not terminated: compare with kind_is */
  const char *line; /* the inside of the JSON string, escapes as they are, not terminated */
  size_t line_length;
  bool partial;
};

bool follower_event_is(const struct follower_event *event, const char *kind);

void follower_run(struct job *job, void (*visit)(const struct follower_event *event, void *context),
                  void *context);

#endif
