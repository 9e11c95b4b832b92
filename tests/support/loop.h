#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "tests/support/directory.h"

/*
 * The environment of a module that runs in an event loop, as in the agent: the loop, all signals
 * blocked, this process as the reaper of all children, a log, and the environment of commands, with
 * a separate directory in $D.
 *
 *   loop_init(&loop); loop.reap = …; loop.owner = …;
 *   start something
 *   assert_true(loop_until(&loop, condition, context))
 *   loop_release(&loop)      fails the test when descriptors were leaked
 */
struct loop {
  struct event_base *base;
  struct log log; /* at level info, in memory */
  struct directory directory;
  char variable[40];     /* D=directory */
  char *environment[16]; /* D and a PATH */
  int stdin_fd;          /* empty */
  struct event *children;
  int child_fd;
  int descriptors;           /* open descriptors at the beginning */
  void (*reap)(void *owner); /* reaps all ended children; NULL: the loop does */
  void *owner;
};

/* The interval at which a condition is checked while nothing happens, in milliseconds; less than a
   second. */
extern int loop_tick_ms;

void loop_init(struct loop *self);

/* Kills and reaps all children that still run. */
void loop_release(struct loop *self);

/* Runs the loop until the condition is true, at most WAIT_BOUND_MS; returns whether it is. */
bool loop_until(struct loop *self, bool (*condition)(void *context), void *context);

/* The same for an expression, which fails the test when it does not come true:
   LOOP_UNTIL(&loop, fake_redis_connections(server) == 2); */
#define LOOP_UNTIL(LOOP, CONDITION)                                                                \
  do {                                                                                             \
    struct loop_wait loop_wait;                                                                    \
    loop_wait_begin(&loop_wait, (LOOP));                                                           \
    while (!(CONDITION))                                                                           \
      loop_wait_turn(&loop_wait, #CONDITION);                                                      \
    loop_wait_end(&loop_wait);                                                                     \
  } while (0)

struct loop_wait {
  struct loop *loop;
  struct event *ticks;
  int64_t end_ms;
};
void loop_wait_begin(struct loop_wait *self, struct loop *loop);
void loop_wait_turn(struct loop_wait *self, const char *awaited);
void loop_wait_end(struct loop_wait *self);

/* Runs the loop until nothing is left to do at once. */
void loop_settle(struct loop *self);

/* A condition: the int at `counter` is not zero. */
bool loop_is_counted(void *counter);

/* Runs the loop until the counter has at least this value; fails the test otherwise. */
void loop_await(struct loop *self, const int *counter, int value);

/* Counts the text in the log; runs the loop until the log has it. */
int loop_logged(const struct loop *self, const char *text);
void loop_await_log(struct loop *self, const char *text);

/* Runs the loop until the directory has this file; opens a gate (tests/support/gate.h) in it. */
void loop_await_file(struct loop *self, const char *name);
void loop_open_gate(struct loop *self, const char *name);

/* Runs the loop until the counter is set and nothing is left to do at once. It must be 1; resets
   it. */
void loop_await_once(struct loop *self, int *counter);
