#ifndef AGENT_FRONTENDS_REDIS_FRONTEND_H
#define AGENT_FRONTENDS_REDIS_FRONTEND_H

#include <event2/event.h>

#include "agent/engine/frontend.h"
#include "agent/frontends/redis/delivery/delivery.h"
#include "base/log.h"

/*
 * Steps from the Redis list `in`, events to the stream `events`, results to the list `results`
 * (wire/PROTOCOL.md). All that exists because Redis may forget, hand out a step twice or be away is
 * below this frontend: intake/ takes steps and knows them again, delivery/ delivers exactly once,
 * connection/ is connections, heartbeat/ speaks to the server.
 *
 * What arrives from Redis, and what the engine says, is recorded. One function, advance() of
 * frontend.c, decides what happens next, once in each turn of the loop in which something was
 * recorded.
 *
 * What it promises: a command executes only when Redis has acknowledged that it was started; every
 * step is answered exactly once. A step that changes nothing (struct kind, `read_only`) executes at
 * once, and its events leave in one transaction with its result: to execute it twice is to execute
 * it once. One that takes longer than REDIS_FRONTEND_READ_MS is made known like every other.
 */
#define REDIS_FRONTEND_READ_MS 100

struct redis_frontend_options {
  struct delivery_options delivery; /* the url of all connections, too */
  const char *version;              /* of the program */
  const char *job_id;
  const char *run_id;             /* NULL: nobody is asked at the idle limit */
  const char *run_set;            /* a key; where a run id is looked for */
  int64_t idle_cycle_ms;          /* until Redis is asked again that gave no answer */
  unsigned long long events_pace; /* events a second after a burst; 0: any number, see pace.h */
  int64_t connect_timeout_ms;     /* until the job is taken over; 0: up to the idle limit */
};

/* It begins to connect with the engine's first want(). Everything must outlive the frontend. */
struct frontend *redis_frontend_new(struct event_base *base, const struct log *log,
                                    const struct redis_frontend_options *options);

#endif
