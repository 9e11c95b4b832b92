#ifndef TESTS_SUPPORT_REDIS_DOOR_OWNER_H
#define TESTS_SUPPORT_REDIS_DOOR_OWNER_H

#include "agent/doors/redis/door.h"
#include "agent/engine/engine.h"
#include "tests/support/loop.h"
#include "tests/support/redis_store.h"

/*
 * An agent of the job j without its process: an engine, its Redis door, and a Redis in the same
 * loop. Commands find a directory of their own in $D.
 */
struct redis_door_owner {
  struct loop loop;
  struct redis_store *store;
  struct redis_url url;
  struct redis_door_options options;
  int64_t idle_limit_ms; /* 0: no limit */
  struct secrets secrets;
  struct engine *engine; /* NULL before door_owner_begin */
  struct door *door;
};

/* For cmocka: the state is an owner whose agent is not there yet; one that has begun. */
int door_owner_set_up(void **state);
int door_owner_set_up_begun(void **state);
int door_owner_tear_down(void **state);
#define NEW_DOOR_TEST(NAME)                                                                        \
  TEST_WITH(struct redis_door_owner *owner, NAME, door_owner_set_up, door_owner_tear_down)
#define DOOR_TEST(NAME)                                                                            \
  TEST_WITH(struct redis_door_owner *owner, NAME, door_owner_set_up_begun, door_owner_tear_down)

/* The agent begins; and has taken the job over. */
void door_owner_make(struct redis_door_owner *self);
void door_owner_begin(struct redis_door_owner *self);

/* As a server does it: a step, JSON in single quotes. */
void door_owner_push(struct redis_door_owner *self, const char *step);

/* The same for `sh -c script`. */
void door_owner_push_script(struct redis_door_owner *self, const char *id, const char *script);

/* It begins; a step is over, with exit code 5, while Redis is away; and a shutdown step comes. */
void door_owner_leave_without_redis(struct redis_door_owner *self);

/* Runs the loop until there are so many results. */
void door_owner_await_results(struct redis_door_owner *self, int count);

/* Runs the loop until the key's value has this text. */
void door_owner_await(struct redis_door_owner *self, const char *key, const char *text);

/* How often the value has this text, for keys of the job: "results". */
int door_owner_count(const struct redis_door_owner *self, const char *key, const char *text);

/* Asserts that it has this text once; that the key is not there; that the log has the text once. */
void door_owner_has_once(const struct redis_door_owner *self, const char *key, const char *text);
void door_owner_lacks(const struct redis_door_owner *self, const char *key);
void door_owner_logged_once(const struct redis_door_owner *self, const char *text);

/* What the outbox has executed, in few words: `(` and `)` for a transaction, the kinds of events,
   `result`, `+started`, `-started`, `-inflight`, `+inflight`, `beat`, `-heartbeat`. Valid until the
   next call. */
const char *door_owner_story(const struct redis_door_owner *self);

/* Runs the loop until the agent exits; returns its exit code. */
int door_owner_exit_code(struct redis_door_owner *self);

#endif
