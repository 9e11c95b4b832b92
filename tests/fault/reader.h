#pragma once

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "tests/fault/tally.h"
#include "tests/support/redis_server.h"

/*
 * Reads what an agent has written to Redis. Its connection leads directly to the server, even if
 * the agent is connected through a proxy. It knows the protocol and nothing about the agent.
 *
 *   reader_init(&reader, server, job_id, &tally)
 *   reader_events, reader_results …
 *   reader_release(&reader)
 *
 * A violation of the protocol is a finding in the tally. A server that does not reply fails the
 * test.
 */
struct reader {
  redisContext *redis;
  const char *job;
  struct tally *tally;
  long long results; /* the number of results at the last reader_glance */
};

/* Valid during the visit. Missing fields are NULL or 0. */
struct reader_event {
  const char *step_id;
  const char *kind;
  const char *line;
  long seq;
};

void reader_init(struct reader *self, const struct redis_server *server, const char *job,
                 struct tally *tally);
void reader_release(struct reader *self);

/* Visits all events, in the order of the stream. */
void reader_events(const struct reader *self,
                   void (*visit)(void *context, const struct reader_event *event), void *context);

long reader_event_count(const struct reader *self);

/* Visits all results, in the order in which a server would take them. */
void reader_results(const struct reader *self, void (*visit)(void *context, const cJSON *result),
                    void *context);

/* Return the length of a list, and whether a key exists, by the last word of the key. */
long reader_length(const struct reader *self, const char *list);
bool reader_has(const struct reader *self, const char *key);

/* Checks while the agent works that each result since the last call has appeared only after the
   `completed` event of its step. */
void reader_glance(struct reader *self);

/* Writes all data of the job into this directory, for people. */
void reader_dump(const struct reader *self, const char *directory);
