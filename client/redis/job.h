#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "client/program.h"

/* Reads one job's keys (wire/PROTOCOL.md, Keys), pushes its steps and takes their results. The hard
   part is that servers and the agent change the lists at the same time, and that a list may be
   longer than a reply may be. Functions return 0, or -1 with the error. */

/* --- which job -------------------------------------------------------------------------------- */

/* Sets program->keys, for the job that was named or else for the only one that is alive. Waits 2 s
   for an agent that was just started. */
int job_choose(struct program *program, struct error *error);

/* Lists the ids of all jobs that have a heartbeat, sorted. */
int job_list(struct program *program, struct texts *ids, struct error *error);

/* --- its agent -------------------------------------------------------------------------------- */

struct job_agent {
  bool is_alive;       /* there is a heartbeat */
  int64_t age_ms;      /* of the heartbeat, by this machine's clock; may be negative */
  int pid;             /* 0: unknown */
  const char *version; /* NULL: 0.1.0 or older */
  cJSON *heartbeat;    /* NULL if there is none, or it is not JSON */
};

int job_read_agent(struct program *program, const char *heartbeat_key, struct job_agent *agent,
                   struct error *error);
void job_agent_release(struct job_agent *self);

/* Whether the heartbeat names this feature. */
bool job_agent_can(const struct job_agent *self, const char *feature);

/* Returns a number of the heartbeat, or -1 if it has none. */
double job_agent_figure(const struct job_agent *self, const char *name);

/* Adds such numbers as JSON. The names end with NULL; their first letter becomes lower case. */
void job_agent_add_json(const struct job_agent *self, const char *const *names,
                        struct buffer *json);

/* Returns the version for a person: "0.3.0", or "0.1.0 or older". */
const char *job_agent_version(const struct job_agent *self);

/* Waits 2 s for an agent that was just started. */
int job_await_agent(struct program *program, struct job_agent *agent, struct error *error);

/* --- its steps -------------------------------------------------------------------------------- */

struct job_step {
  char *id, *kind; /* "?" if it cannot be read */
  char *target;    /* the command with its arguments or the first line of a script, the path, … */
  bool is_taken;   /* it is in `inflight` */
  bool is_running;
  size_t short_length; /* how many bytes of the id are unique among the steps, at least 4 */
};

/* In the order in which they run. */
struct job_steps {
  struct job_step *list;
  size_t count;
};

/* Reads the running step and the waiting ones, also those that move between the lists meanwhile. */
int job_read_steps(struct program *program, struct job_steps *steps, struct error *error);
void job_steps_release(struct job_steps *self);

/* Finds a step in the lists, and counts the steps before it. */
int job_find_step(struct program *program, const char *id, size_t *before, bool *is_found,
                  struct error *error);

/* Returns the id of the step that was started and has no result yet, which the caller frees, or
   NULL; also after an error. */
char *job_read_running(struct program *program);

/* Returns the target of a step in `inflight`, which the caller frees, or "". */
char *job_describe_taken(struct program *program, const char *id);

/* Pushes a step, and never twice. If the connection is lost meanwhile, looks whether Redis has it.
   An error says if the step may still run. */
int job_push(struct program *program, const char *id, const char *json, struct error *error);

/* Takes the step's result out of its list. The caller frees it; NULL: there is none. */
int job_take_result(struct program *program, const char *id, char **result, struct error *error);

/* "7f3a": the first 4 bytes of an id, or as many as make a listed step's id unique. */
struct job_short_id {
  char text[40];
};
struct job_short_id job_shorten(const char *id);
struct job_short_id job_shorten_step(const struct job_step *step);

/* --- control messages ------------------------------------------------------------------------- */

/* Pushes a cancel to the list `control`, which the agent reads out of band. An agent without that
   feature (0.2 or older) gets it in `in`. If no agent is alive, the next one reads `control`, which
   has a day to live. A second cancel of the same step does nothing. */
int job_cancel(struct program *program, const struct job_agent *agent, const char *id,
               struct error *error);

/* Tells the agent that the events up to `seq` were read. Does not wait for the reply. */
void job_acknowledge(struct program *program, const char *id, uint64_t seq, reply_handler *handler,
                     void *owner);

/* Pushes a shutdown to the list `in`: its turn comes after the waiting steps. It is not pushed
   again if the connection is lost, because a second one would stop the next agent. */
int job_shut_down(struct program *program, const char *id, struct error *error);
