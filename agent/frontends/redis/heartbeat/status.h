#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/step_counts.h"
#include "base/buffer.h"
#include "base/cgroup.h"

/* Writes the members of the heartbeat that heartbeat.c does not write: the agent's version and
   features, its working directory, the steps that it has answered, and the resources that its
   container uses. The frontend owns it and counts the steps. It is {0} at first. */
struct status {
  struct step_counts steps;
  unsigned written;    /* the number of status_write calls; set back by status_announce */
  struct buffer text;  /* the members: version and features, then the figures */
  size_t agent_length; /* the length of the first part, which does not change */
};

/* Sets the members that do not change. `without` are features that Redis does not permit, ended by
   NULL, and `abilities` members of engine_add_abilities. Idempotent; status_release frees the text.
   */
void status_announce(struct status *self, const char *version, const char *const *without,
                     const struct buffer *abilities);
void status_release(struct status *self);

/* Where status_write reads figures from. */
struct status_sources {
  const struct cgroup *(*container)(void);
  char *(*directory)(void); /* see kind_default_directory */
};

/* Appends the members to a JSON object, each with a comma before it. The figures are read for the
   first and the second heartbeat, for the first one after a later status_announce, and then for
   every STATUS_REFRESHED-th one. Unknown ones are omitted, and in the first heartbeat those of the
   container, which would delay the start. */
#define STATUS_REFRESHED 5
void status_write(struct status *self, const struct status_sources *sources, size_t held_bytes,
                  uint64_t reconnects, struct buffer *out);
