#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "client/steps/event.h"

/*
 * How commands reach a job: its agent, its steps and their events. There are two implementations,
 * redis/redis_job.h and http/http_job.h, and program.h has the one that the URL chooses. Functions
 * return 0, or -1 with the error, unless they say otherwise.
 */
struct program;
struct step_watch;
struct history;
struct started;

/* --- its agent -------------------------------------------------------------------------------- */

struct job_agent {
  bool is_alive;       /* there is a heartbeat, or it has answered */
  int64_t age_ms;      /* of the heartbeat, by this machine's clock; may be negative */
  int pid;             /* 0: unknown */
  const char *version; /* NULL: 0.1.0 or older */
  cJSON *heartbeat;    /* or health, whose names begin in lower case; NULL: none, or not JSON */
};

void job_agent_release(struct job_agent *self);

/* Whether the agent names this feature. */
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
  bool is_taken;   /* an agent has it already: without an agent, it is lost */
  bool is_running;
  bool is_kept;        /* it cannot be cancelled, and groups of steps leave it out */
  size_t short_length; /* how many bytes of the id are unique among the steps, at least 4 */
};

/* In the order in which they run. */
struct job_steps {
  struct job_step *list;
  size_t count;
};
void job_steps_release(struct job_steps *self);

/* Removes steps that are listed twice, and makes the short ids unique. */
void job_steps_deduplicate(struct job_steps *self);

/* Where a step is. */
struct job_place {
  bool is_found;
  size_t before; /* it waits for this number of steps */
  char *running; /* the id of the running step, which the caller frees; NULL: none */
};

/* "7f3a": the first 4 bytes of an id, or as many as make a listed step's id unique. */
struct job_short_id {
  char text[40];
};
struct job_short_id job_shorten(const char *id);
struct job_short_id job_shorten_step(const struct job_step *step);

/* --- the two implementations ------------------------------------------------------------------ */

/* What may happen while a step runs: step_watch.h. */
enum watch_report {
  WATCH_NOTHING,
  WATCH_SIGNAL,      /* `program.signal` */
  WATCH_OUTPUT_GONE, /* nobody reads standard output; reported once per step */
  WATCH_STEP_ABSENT, /* the step is over or lost since `present_ms`, and its events were read */
  WATCH_AGENT_AWAY,  /* there has been no heartbeat for 12 s; reported once */
  WATCH_AGENT_GONE,  /* there has been no heartbeat for a minute */
  WATCH_PEER_GONE, /* the peer has been away for ACCESS_TIMEOUT_MS: `watch.error` has the message */
  WATCH_REPORTS
};

/* A call fails if the peer is away for this time. */
#define ACCESS_TIMEOUT_MS 15000

/* The source of the events that a step_watch reads. It calls the handler of the watch from the
   loop, then waits until events are requested again. */
struct event_access {
  void *(*open)(struct step_watch *watch);
  void (*close)(void *source);
  void (*read)(void *source);   /* requests events; idempotent */
  void (*expect)(void *source); /* `watch.id` or `watch.last` has changed */
  /* Sets watch.acknowledged to 0 if it is lost. Needs an agent with flowControl. */
  void (*acknowledge)(void *source, uint64_t seq);
  /* Looks what else has happened. It may run the loop. */
  enum watch_report (*check)(void *source);

  /* Sets the newest entry, and its step. */
  int (*read_newest)(struct program *program, struct history *history, struct error *error);

  /* Visits the events, the newest first, and may leave out steps whose ids do not begin with
     `prefix` (NULL: any step). */
  int (*scan)(struct program *program, const char *prefix, event_visitor *visit, void *owner,
              struct error *error);

  /* Returns the time in milliseconds since 1970 by the clock of `logged_ms` of events. */
  int64_t (*read_clock)(struct program *program);

  /* Finds the event `started` of the running step, or leaves its timestamp empty. */
  int (*find_started)(struct program *program, const char *id, struct started *started,
                      struct error *error);
};

struct job_access {
  const char *peer;         /* to which the client is connected: "redis" or "the agent" */
  const char *missed_cause; /* why events may be missing; NULL: there are several reasons */

  /* Finds the job, and sets program->job. */
  int (*choose)(struct program *program, struct error *error);

  /* Sets whether an agent is alive. Fails in 1 s. */
  int (*ping)(struct program *program, bool *is_alive, struct error *error);

  int (*read_agent)(struct program *program, struct job_agent *agent, struct error *error);

  /* Reads the running step and the waiting ones, also those that move meanwhile. */
  int (*read_steps)(struct program *program, struct job_steps *steps, struct error *error);
  int (*find_step)(struct program *program, const char *id, struct job_place *place,
                   struct error *error);

  /* Returns the target of the running step, which the caller frees, or "". */
  char *(*describe_running)(struct program *program, const char *id);

  /* Pushes a step, and never twice. An error says if the step may still run. `source` reads its
     events then; NULL: nobody waits for it. */
  int (*push)(struct program *program, void *source, const char *id, const char *json,
              struct error *error);

  /* Takes the step's result. The caller frees it; NULL: there is none. */
  int (*take_result)(struct program *program, const char *id, char **result, struct error *error);

  /* A second cancel of the same step does nothing. Without an agent, the next one obeys. */
  int (*cancel)(struct program *program, const struct job_agent *agent, const char *id,
                struct error *error);

  /* Pushes a shutdown, whose turn comes after the waiting steps. */
  int (*shut_down)(struct program *program, const char *id, struct error *error);

  const struct event_access *events;
};
