#ifndef TESTS_FAULT_READER_H
#define TESTS_FAULT_READER_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "tests/fault/tally.h"
#include "tests/support/redis_server.h"

/*
 * Reads what an agent has left in Redis, over a connection of its own, straight from the server,
 * whatever lies between the server and the agent. It knows the protocol and nothing of the agent.
 *
 *   reader_init(&reader, server, job_id, &tally)
 *   reader_events, reader_results …
 *   reader_release(&reader)
 *
 * What is not as the protocol has it is a finding in the tally; a server that does not answer fails
 * the test.
 */
struct reader {
  redisContext *redis;
  const char *job;
  struct tally *tally;
  long long results; /* there were at the last glance */
};

/* Lives as long as the visit. Fields that are missing are NULL or 0. */
struct reader_event {
  const char *step_id;
  const char *kind;
  const char *line;
  long seq;
};

void reader_init(struct reader *self, const struct redis_server *server, const char *job,
                 struct tally *tally);
void reader_release(struct reader *self);

/* All events, in the order of the stream. */
void reader_events(const struct reader *self,
                   void (*visit)(void *context, const struct reader_event *event), void *context);

long reader_event_count(const struct reader *self);

/* All results, in the order in which a server would take them. */
void reader_results(const struct reader *self, void (*visit)(void *context, const cJSON *result),
                    void *context);

/* What is still in one of the lists, by the last word of its key; whether there is such a key. */
long reader_length(const struct reader *self, const char *list);
bool reader_has(const struct reader *self, const char *key);

/* While the agent works: a result that is new since the last glance must have its `completed` event
   before it. */
void reader_glance(struct reader *self);

/* All that there is of the job, for people, into this directory. */
void reader_dump(const struct reader *self, const char *directory);

#endif
