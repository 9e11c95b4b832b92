#pragma once

#include "tests/support/agent_process.h"
#include "tests/support/redis_store.h"
#include "tests/test.h"

/* An agent whose Redis is a redis_store: the server runs only while the test lets its loop run. */
struct store_agent {
  struct event_base *base;
  struct redis_store *store;
  struct agent_process *agent; /* NULL until started */
};

int store_agent_set_up(void **state);
int store_agent_tear_down(void **state);

#define STORE_TEST(NAME)                                                                           \
  TEST_WITH(struct store_agent *scene, NAME, store_agent_set_up, store_agent_tear_down)

/* Starts the agent of the job "j"; ends the one before. */
void store_agent_start(struct store_agent *self);
void store_agent_end(struct store_agent *self);

/* Runs the server's loop for this time. */
void store_agent_pass_ms(struct store_agent *self, int milliseconds);

/* Runs the server's loop until the condition is true; fails the test after WAIT_BOUND_MS. */
#define STORE_UNTIL(SELF, CONDITION)                                                               \
  do {                                                                                             \
    for (int64_t end_ms = wait_now_ms() + WAIT_BOUND_MS; !(CONDITION);                             \
         store_agent_pass_ms((SELF), 5))                                                           \
      if (wait_now_ms() > end_ms)                                                                  \
        fail_msg("never true: %s", #CONDITION);                                                    \
  } while (0)

/* Answers commands that begin like `command` with these bytes, and then with `endless` again and
   again (NULL: only the bytes). */
void store_agent_answer(struct store_agent *self, const char *command, const char *bytes,
                        const char *endless);
