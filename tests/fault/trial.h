#ifndef TESTS_FAULT_TRIAL_H
#define TESTS_FAULT_TRIAL_H

#include <limits.h>
#include <stdbool.h>

#include "tests/fault/tally.h"
#include "tests/fault/work.h"
#include "tests/support/certificates.h"
#include "tests/support/proxy.h"

/*
 * One agent, one job, one thing that is broken. A trial has a process of its own, which whatever
 * fails in it ends; on the way out it leaves what it knows in its directory, and ends what it has
 * started.
 *
 *   trial_open(trial, NULL)             or a server of its own, trial_start_server(trial, NULL)
 *   trial_put_proxy(trial, &plan)       where it is the connection that breaks
 *   work_push_lines(&trial->work, …)
 *   trial_start_agent(trial)
 *   …
 *   trial_finish(trial, bound_ms)       waits for the agent's end, and checks everything
 */
struct trial {
  const char *family;
  const struct certificates *certificates; /* the agents use TLS, with these; NULL: they do not */
  bool by_role;
  enum relay_role role; /* the connection that is broken, where the family has it by role */
  long number;          /* the byte at which it breaks, or the seed */
  char directory[PATH_MAX];
  struct redis_server *shared; /* a server that others use before and after; or NULL */
  struct tally *tally;         /* what is found goes here */
  struct job *job;
  struct work work;
  struct proxy *proxy;
  unsigned short random[3];
  bool kept; /* the log of the running agent is in the directory */
};

/* A text that names the trial, and repeats it when it is given to the program. */
void trial_name(const struct trial *self, char separator, char *out, size_t size);

/* Starts a server as redis_server_start does; with TLS where the trial has it. */
struct redis_server *trial_start_server(const struct trial *self, const char *const *extra);

/* `server` becomes the trial's own; NULL: the shared one is used, emptied. */
void trial_open(struct trial *self, struct redis_server *server);

/* Agents that are started from now on connect through a proxy. */
void trial_put_proxy(struct trial *self, const struct proxy_plan *plan);

/* The bytes of a connection in this direction, for a fault at a random one: that many, and over TLS
   the handshake and the records' share of them, too. */
long trial_reach(const struct trial *self, enum relay_direction direction, long bytes);

/* Finds a fault unless the server knows the last connection of this role as one of it: over TLS the
   proxy does not see its name. */
void trial_expect_role(struct trial *self, enum relay_role role);

/* Starts the agent, instead of one that was there before, with a stream that is not trimmed. */
void trial_start_agent(struct trial *self);

/* Starts another one beside it, which is the trial's from now on; the one before is returned. */
struct agent_process *trial_supersede_agent(struct trial *self);

/* Ends it as its container's end would: with all its processes, at once. */
void trial_kill_agent(struct trial *self);

/* Pushes a step whose script prints the lines 1 … before, and which prints more of them when the
   gate has been opened, for which it waits a minute. */
struct work_step *trial_push_gated(struct trial *self, long before, const char *script, long more);
void trial_open_gate(struct trial *self);

/* Waits until the agent has left with 0 by itself (a shutdown must have been pushed), as long as
   more events come within the bound, and holds what there is against the work. */
void trial_finish(struct trial *self, int bound_ms);

/* Waits until there are so many results; false when they do not come. */
bool trial_wait_results(struct trial *self, long results, int bound_ms);

/* One of `count` numbers from 0, the same for the same seed. */
long trial_random(struct trial *self, long count);

/* Lets this time go by: how long a fault lasts is part of the fault. */
void trial_let_pass(int milliseconds);

/* A command on the job's own connection; fails the test on an error. Returns its integer. */
long long trial_command(struct trial *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Finds a fault unless the agents' logs so far hold `text` at least and at most so often. */
void trial_expect_log(struct trial *self, const char *text, int least, int most);

#endif
