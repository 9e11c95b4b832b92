#pragma once

#include <event2/event.h>

#include "agent/engine/frontend.h"
#include "agent/frontends/redis/delivery/delivery.h"
#include "base/log.h"

/*
 * The frontend that takes steps from the Redis list `in`, and writes events to the stream `events`
 * and results to the list `results` (wire/PROTOCOL.md). The hard part is that Redis may lose data,
 * deliver a step twice or be unreachable. Four modules deal with that: intake/ takes steps and
 * recognizes redelivered ones, delivery/ writes exactly once, heartbeat/ shows that the agent is
 * alive and reads control messages, and connection/ reconnects.
 *
 * Callbacks of Redis and of the engine only record what happened. One function, advance() of
 * frontend.c, decides what happens next, once in each loop iteration in which something was
 * recorded.
 *
 * Two promises: every step is answered exactly once, and a command executes only after Redis has
 * acknowledged its start. There is one exception: a step that changes nothing (`read_only` of
 * struct kind) executes at once, because executing it twice does no harm. Its events are deferred
 * and leave in one transaction with its result. If it takes longer than REDIS_FRONTEND_READ_MS, its
 * start is announced as for any other step.
 */
#define REDIS_FRONTEND_READ_MS 100

struct redis_frontend_options {
  struct delivery_options delivery; /* its url is used by all connections */
  const char *version;              /* of the program */
  const char *job_id;
  const char *run_id;             /* NULL: the agent exits at the idle limit without asking Redis */
  const char *run_set;            /* the key of the set that contains the ids of active runs */
  int64_t idle_cycle_ms;          /* the pause after a question about the run without an answer */
  unsigned long long events_pace; /* events per second after a burst; 0: no limit; rate_limit.h */
  int64_t connect_timeout_ms;     /* the time to take the job over; 0: up to the idle limit */
};

/* Creates the frontend and begins to connect. The arguments must outlive the frontend. */
struct frontend *redis_frontend_new(struct event_base *base, const struct log *log,
                                    const struct redis_frontend_options *options);
