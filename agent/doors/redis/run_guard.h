#ifndef AGENT_DOORS_REDIS_RUN_GUARD_H
#define AGENT_DOORS_REDIS_RUN_GUARD_H

#include <event2/event.h>

#include "agent/doors/redis/net/url.h"
#include "base/log.h"

/*
 * Asks once whether a run is alive: whether its id is in the set RUN_GUARD_KEY, which the server
 * keeps. Over a connection that is made for it: in a cluster that key may be at another node than
 * the job's.
 */
#define RUN_GUARD_KEY "agentsmith:runs:active"

/* From the question to the answer at most, the connection included. */
#define RUN_GUARD_MS 10000

struct run_guard;

enum run_guard_answer {
  RUN_GUARD_ALIVE,
  RUN_GUARD_OVER,   /* it is not in the set */
  RUN_GUARD_UNKNOWN /* Redis refuses, cannot be reached, or does not answer in time */
};

/* `done` is called once, from the loop, unless it is cancelled; `why` is for people, and empty
   where there is an answer. Then the guard frees itself. The url and the log must outlive it;
   `name` is for CLIENT LIST. */
struct run_guard *run_guard_ask(struct event_base *base, const struct log *log,
                                const struct redis_url *url, const char *name, const char *run_id,
                                void (*done)(void *owner, enum run_guard_answer answer,
                                             const char *why),
                                void *owner);

/* `done` is not called. */
void run_guard_cancel(struct run_guard *self);

#endif
