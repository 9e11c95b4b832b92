#ifndef AGENT_DOORS_REDIS_BEAT_STATUS_H
#define AGENT_DOORS_REDIS_BEAT_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cgroup.h"
#include "wire/step_report.h"

/* What a heartbeat says beside that there is one: which agent this is, what it can do, what it has done
   and what its container uses. */
struct status {
  const char *version; /* of the program */
  struct {
    uint64_t ok, failed, timed_out, cancelled;
  } steps;
  unsigned written;      /* times */
  struct buffer figures; /* as they were at the last STATUS_REFRESHED-th time */
};

/* Figures are read anew each so many times. */
#define STATUS_REFRESHED 5

void status_init(struct status *self, const char *version);
void status_release(struct status *self);

/* A step that was answered, by whatever. */
void status_count(struct status *self, const struct step_result *result);

/* Adds the members of a JSON object, each with a comma before it. What cannot be read of the container is
   left out. */
void status_write(struct status *self, const struct cgroup *container, size_t held_bytes,
                  uint64_t reconnects, struct buffer *out);

#endif
