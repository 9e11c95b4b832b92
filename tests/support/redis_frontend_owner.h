#ifndef TESTS_SUPPORT_REDIS_FRONTEND_OWNER_H
#define TESTS_SUPPORT_REDIS_FRONTEND_OWNER_H

#include "agent/engine/engine.h"
#include "agent/frontends/redis/frontend.h"
#include "tests/support/loop.h"
#include "tests/support/redis_store.h"

/*
 * An agent of the job j without its process: an engine, its Redis frontend, and a Redis in the same
 * loop. Commands find a directory of their own in $D.
 */
struct redis_frontend_owner {
  struct loop loop;
  struct redis_store *store;
  struct redis_url url;
  struct redis_frontend_options options;
  int64_t idle_limit_ms; /* 0: no limit */
  struct secrets secrets;
  struct engine *engine; /* NULL before frontend_owner_begin */
  struct frontend *frontend;
};

/* For cmocka: the state is an owner whose agent is not there yet; one that has begun. */
int frontend_owner_set_up(void **state);
int frontend_owner_set_up_begun(void **state);
int frontend_owner_tear_down(void **state);
#define NEW_FRONTEND_TEST(NAME)                                                                    \
  TEST_WITH(struct redis_frontend_owner *owner, NAME, frontend_owner_set_up,                       \
            frontend_owner_tear_down)
#define FRONTEND_TEST(NAME)                                                                        \
  TEST_WITH(struct redis_frontend_owner *owner, NAME, frontend_owner_set_up_begun,                 \
            frontend_owner_tear_down)

/* The agent begins; and has taken the job over. */
void frontend_owner_make(struct redis_frontend_owner *self);
void frontend_owner_begin(struct redis_frontend_owner *self);

/* As a server does it: a step, JSON in single quotes. */
void frontend_owner_push(struct redis_frontend_owner *self, const char *step);

/* The same for `sh -c script`. */
void frontend_owner_push_script(struct redis_frontend_owner *self, const char *id,
                                const char *script);

/* It begins; a step is over, with exit code 5, while Redis is away; and a shutdown step comes. */
void frontend_owner_leave_without_redis(struct redis_frontend_owner *self);

/* Runs the loop until there are so many results. */
void frontend_owner_await_results(struct redis_frontend_owner *self, int count);

/* Runs the loop until the key's value has this text. */
void frontend_owner_await(struct redis_frontend_owner *self, const char *key, const char *text);

/* How often the value has this text, for keys of the job: "results". */
int frontend_owner_count(const struct redis_frontend_owner *self, const char *key,
                         const char *text);

/* Asserts that it has this text once; that the key is not there; that the log has the text once. */
void frontend_owner_has_once(const struct redis_frontend_owner *self, const char *key,
                             const char *text);
void frontend_owner_lacks(const struct redis_frontend_owner *self, const char *key);
void frontend_owner_logged_once(const struct redis_frontend_owner *self, const char *text);

/* What the outbox has executed, in few words: `(` and `)` for a transaction, the kinds of events,
   `result`, `+started`, `-started`, `-inflight`, `+inflight`, `beat`, `-heartbeat`. Valid until the
   next call. */
const char *frontend_owner_story(const struct redis_frontend_owner *self);

/* Runs the loop until the agent exits; returns its exit code. */
int frontend_owner_exit_code(struct redis_frontend_owner *self);

#endif
