#ifndef AGENT_FRONTENDS_REDIS_HEARTBEAT_STATUS_H
#define AGENT_FRONTENDS_REDIS_HEARTBEAT_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cgroup.h"
#include "wire/step_report.h"

/* The content of the heartbeat beyond the members that heartbeat.c writes: the agent's version and
   features, the steps that it has answered, and the resources that its container uses. */
struct status {
  struct {
    uint64_t ok, failed, timed_out, cancelled;
  } steps;
  unsigned written;    /* the number of status_write calls */
  struct buffer text;  /* the members: version and features, then the figures */
  size_t agent_length; /* the length of the first part, which does not change */
};

/* Returns true if status_read must be called before the next status_write. The figures are read for
   the first and the second heartbeat, and then for every STATUS_REFRESHED-th one. */
#define STATUS_REFRESHED 5
bool status_is_due(const struct status *self);

void status_init(struct status *self, const char *version);
void status_release(struct status *self);

/* Counts a step that was answered by a command or by the agent itself. */
void status_count(struct status *self, const struct step_result *result);

/* Reads the figures. Unknown ones are omitted; if `container` is NULL, all of the container's. */
void status_read(struct status *self, const struct cgroup *container, size_t held_bytes,
                 uint64_t reconnects);

/* Appends the members to a JSON object, each with a comma before it. */
void status_write(struct status *self, struct buffer *out);

#endif
