#ifndef AGENT_FRONTENDS_REDIS_HEARTBEAT_STATUS_H
#define AGENT_FRONTENDS_REDIS_HEARTBEAT_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cgroup.h"
#include "wire/step_report.h"

/* What a heartbeat says beside that there is one: which agent this is, what it can do, what it has
   done and what its container uses. */
struct status {
  struct {
    uint64_t ok, failed, timed_out, cancelled;
  } steps;
  unsigned written; /* times */
  /* What is written: which agent it is, so many bytes, and the figures as they were at the last
     STATUS_REFRESHED-th time. */
  struct buffer text;
  size_t agent_length;
};

/* Figures are read for the first and the second heartbeat, and then for every STATUS_REFRESHED-th:
   then status_read comes before status_write. */
#define STATUS_REFRESHED 5
bool status_is_due(const struct status *self);

void status_init(struct status *self, const char *version);
void status_release(struct status *self);

/* A step that was answered, by whatever. */
void status_count(struct status *self, const struct step_result *result);

/* Figures that the container does not give are left out; NULL: all of them. */
void status_read(struct status *self, const struct cgroup *container, size_t held_bytes,
                 uint64_t reconnects);

/* Adds the members of a JSON object, each with a comma before it. */
void status_write(struct status *self, struct buffer *out);

#endif
