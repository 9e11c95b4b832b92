#pragma once

#include "agent/confinement/confinement.h"
#include "agent/engine/engine.h"
#include "agent/frontends/redis/frontend.h"
#include "tests/support/loop.h"
#include "tests/support/redis_store.h"

/* An agent of the job j in the test's process: an engine, its Redis frontend, and a Redis in the
   same loop. $D is a separate directory for commands. */
struct redis_frontend_owner {
  struct loop loop;
  struct redis_store *store;
  struct redis_url url;
  struct redis_frontend_options options;
  int64_t idle_limit_ms; /* 0: no limit */
  struct secrets secrets;
  struct confinement *confinement; /* of steps without a policy */
  struct engine *engine;           /* NULL before frontend_owner_begin */
  struct frontend *frontend;
};

/* For cmocka. The state is an owner without an agent, or with one that owns the job. */
int frontend_owner_set_up(void **state);
int frontend_owner_set_up_begun(void **state);
int frontend_owner_tear_down(void **state);
#define NEW_FRONTEND_TEST(NAME)                                                                    \
  TEST_WITH(struct redis_frontend_owner *owner, NAME, frontend_owner_set_up,                       \
            frontend_owner_tear_down)
#define FRONTEND_TEST(NAME)                                                                        \
  TEST_WITH(struct redis_frontend_owner *owner, NAME, frontend_owner_set_up_begun,                 \
            frontend_owner_tear_down)

/* Starts the agent; the second function also waits until it has taken the job over. */
void frontend_owner_make(struct redis_frontend_owner *self);
void frontend_owner_begin(struct redis_frontend_owner *self);

/* Pushes a step as a server does: JSON in single quotes. */
void frontend_owner_push(struct redis_frontend_owner *self, const char *step);

/* Pushes a cancel to `control`. */
void frontend_owner_push_cancel(struct redis_frontend_owner *self, const char *id);

/* Pushes a step that runs `sh -c script`. */
void frontend_owner_push_script(struct redis_frontend_owner *self, const char *id,
                                const char *script);

/* Starts the agent, lets a step end with exit code 5 while Redis is unreachable, and makes the
   agent leave. */
void frontend_owner_leave_without_redis(struct redis_frontend_owner *self);

/* Runs the loop until there are this many results. */
void frontend_owner_await_results(struct redis_frontend_owner *self, int count);

/* Runs the loop until the key's value has this text. */
void frontend_owner_await(struct redis_frontend_owner *self, const char *key, const char *text);

/* Counts the text in the value of a key of the job: "results". */
int frontend_owner_count(const struct redis_frontend_owner *self, const char *key,
                         const char *text);

/* Fail unless the value has this text once, the key is absent, or the log has the text once. */
void frontend_owner_has_once(const struct redis_frontend_owner *self, const char *key,
                             const char *text);
void frontend_owner_lacks(const struct redis_frontend_owner *self, const char *key);
void frontend_owner_logged_once(const struct redis_frontend_owner *self, const char *text);

/* Returns the commands that the outbox has executed, as words: `(` and `)` for a transaction, the
   kinds of events, `result`, `+started`, `-started`, `-inflight`, `+inflight`, `beat`,
   `-heartbeat`. Valid until the next call. */
const char *frontend_owner_story(const struct redis_frontend_owner *self);

/* Runs the loop until the agent exits; returns its exit code. */
int frontend_owner_exit_code(struct redis_frontend_owner *self);
