#pragma once

#include <limits.h>
#include <stdbool.h>

#include "tests/fault/tally.h"
#include "tests/fault/work.h"
#include "tests/support/certificates.h"
#include "tests/support/proxy.h"

/*
 * A trial has one agent, one job and one fault. It runs in its own process, which ends at the first
 * failure. Before that, it writes the evidence into its directory and ends everything that it has
 * started.
 *
 *   trial_open(trial, NULL)             or trial_start_server(trial, NULL) for a separate server
 *   trial_put_proxy(trial, &plan)       if the fault is in a connection
 *   work_push_lines(&trial->work, …)
 *   trial_start_agent(trial)
 *   …
 *   trial_finish(trial, bound_ms)       waits for the agent's end, and checks everything
 */
struct trial {
  const char *family;
  const struct certificates *certificates; /* of the agents' TLS connections; NULL: no TLS */
  bool by_role;
  enum relay_role role; /* the connection that breaks, if the family is by role */
  long number;          /* the byte at which it breaks, or the seed */
  char directory[PATH_MAX];
  struct redis_server *shared; /* a server that other trials use, too; NULL: none */
  struct tally *tally;         /* collects the findings */
  struct job *job;
  struct work work;
  struct proxy *proxy;
  const char *events_maxlen; /* of the agents; NULL: the stream is not trimmed */
  unsigned short random[3];
  bool kept; /* the log of the running agent was copied to the directory */
};

/* Makes a text that names the trial. The program repeats the trial if it gets this text. */
void trial_name(const struct trial *self, char separator, char *out, size_t size);

/* Starts a server like redis_server_start, with TLS if the trial uses it. */
struct redis_server *trial_start_server(const struct trial *self, const char *const *extra);

/* Opens the trial, which takes ownership of `server`. NULL: uses the shared server and empties
   it. */
void trial_open(struct trial *self, struct redis_server *server);

/* Makes the next agents connect through a proxy. */
void trial_put_proxy(struct trial *self, const struct proxy_plan *plan);

/* Returns the number of bytes in this direction among which a random fault is chosen: `bytes`, and
   over TLS also those of the handshake and of the record headers. */
long trial_reach(const struct trial *self, enum relay_direction direction, long bytes);

/* Adds a finding unless the server knows the last connection of this role by the name of the role.
   Over TLS the proxy does not see the name. */
void trial_expect_role(struct trial *self, enum relay_role role);

/* Starts the agent, which replaces an earlier one. */
void trial_start_agent(struct trial *self);

/* Starts a second agent, which becomes the trial's agent. Returns the previous one. */
struct agent_process *trial_supersede_agent(struct trial *self);

/* Kills the agent and all its processes at once, as the end of a container does. */
void trial_kill_agent(struct trial *self);

/* Pushes a step whose script prints the lines 1 to `before`. It waits up to a minute for the gate,
   and then prints `more` lines. */
struct work_step *trial_push_gated(struct trial *self, long before, const char *script, long more);
void trial_open_gate(struct trial *self);

/* Waits until the agent exits with 0, as long as more events arrive within the bound, and then
   checks everything. A shutdown must have been pushed. */
void trial_finish(struct trial *self, int bound_ms);

/* Waits for this many results. Returns false if they do not arrive within the bound. */
bool trial_wait_results(struct trial *self, long results, int bound_ms);

/* Returns a number from 0 to `count` - 1, which depends only on the seed and on earlier calls. */
long trial_random(struct trial *self, long count);

/* Sleeps. The duration of a fault is part of the fault. */
void trial_let_pass(int milliseconds);

/* Sends a command on the job's connection, and returns the integer of its reply. An error fails the
   test. */
long long trial_command(struct trial *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds a finding unless the agents' logs so far have `text` from `least` to `most` times. */
void trial_expect_log(struct trial *self, const char *text, int least, int most);
