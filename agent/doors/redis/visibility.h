#ifndef AGENT_DOORS_REDIS_VISIBILITY_H
#define AGENT_DOORS_REDIS_VISIBILITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

/*
 * Whether the others can see that the agent is there; the log says so, once, when they could not
 * for VISIBILITY_MS, and once more when they can again.
 *
 *   visibility_init     from here on
 *   visibility_confirm  Redis has answered that the key is there
 *   visibility_check    now and then
 */
#define VISIBILITY_MS 10000

struct visibility {
  const struct log *log;
  int64_t since_ms; /* monotonic; the key was there */
  bool told;        /* that it is not */
};

/* The log must outlive it. */
void visibility_init(struct visibility *self, const struct log *log);

void visibility_confirm(struct visibility *self);

/* `full`: Redis had no room for the key. */
void visibility_check(struct visibility *self, bool full);

#endif
