#ifndef AGENT_FRONTENDS_REDIS_HEARTBEAT_RUN_ALIVE_H
#define AGENT_FRONTENDS_REDIS_HEARTBEAT_RUN_ALIVE_H

#include <event2/event.h>

#include "agent/frontends/redis/connection/url.h"
#include "base/log.h"

/*
 * Asks Redis once whether a run is alive: whether its id is in a set that the server keeps. It
 * makes a connection of its own, since in a cluster that key may be on another node than the job's.
 */
/* The longest time from run_alive_ask to done(), the connection included. */
#define RUN_ALIVE_MS 10000

struct run_alive;

enum run_alive_answer {
  RUN_ALIVE_YES,
  RUN_ALIVE_NO,     /* it is not in the set */
  RUN_ALIVE_UNKNOWN /* Redis refuses, is unreachable, or does not reply in time */
};

typedef void run_alive_done(void *owner, enum run_alive_answer answer, const char *why);

/* `done` is called once, from the loop, and then the guard frees itself; `why` explains
   RUN_ALIVE_UNKNOWN to people and is empty otherwise. The url and the log must outlive the guard;
   `name`, for CLIENT LIST, `set` and `run_id` are read during the call. */
struct run_alive *run_alive_ask(struct event_base *base, const struct log *log,
                                const struct redis_url *url, const char *name, const char *set,
                                const char *run_id, run_alive_done *done, void *owner);

/* Frees the guard; `done` is not called. */
void run_alive_cancel(struct run_alive *self);

#endif
