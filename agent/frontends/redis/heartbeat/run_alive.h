#pragma once

#include <event2/event.h>

#include "agent/frontends/redis/connection/url.h"
#include "base/log.h"

/*
 * Asks Redis once whether a run is alive: whether its id is in a set that the server maintains. The
 * frontend asks at the idle limit. The query has its own connection, because in a cluster that key
 * may be on another node than the job's keys.
 */
/* The longest time from run_alive_ask to done(), including the time to connect. */
#define RUN_ALIVE_MS 10000

struct run_alive;

enum run_alive_answer {
  RUN_ALIVE_YES,
  RUN_ALIVE_NO,     /* the id is not in the set */
  RUN_ALIVE_UNKNOWN /* Redis rejects the query, is unreachable, or does not reply in time */
};

typedef void run_alive_done(void *owner, enum run_alive_answer answer, const char *why);

/* Calls `done` once from the event loop; the query then frees itself. `why` explains
   RUN_ALIVE_UNKNOWN to people and is empty otherwise. The url and the log must outlive the query.
   `name`, which is for CLIENT LIST, `set` and `run_id` are copied. */
struct run_alive *run_alive_ask(struct event_base *base, const struct log *log,
                                const struct redis_url *url, const char *name, const char *set,
                                const char *run_id, run_alive_done *done, void *owner);

/* Frees the query; `done` is not called. */
void run_alive_cancel(struct run_alive *self);
