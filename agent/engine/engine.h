#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/engine/frontend.h"
#include "agent/engine/secrets.h"
#include "agent/kinds/kind.h"
#include "agent/process/supervisors.h"
#include "base/log.h"

/*
 * The engine executes steps and reports them through a frontend (frontend.h). It has the table of
 * executions, measures the time without a step, reaps children, and ends the program in order
 * (shutdown.c). It knows nothing of Redis.
 *
 *   engine = engine_new(&options)
 *   engine_set_frontend(engine, frontend)
 *   exit_code = engine_run(engine)        runs the event loop until the shutdown is over
 *   engine_free(engine)                   the caller frees the frontend afterwards
 */
struct engine;

/* Everything that is pointed to must outlive the engine. */
struct engine_options {
  struct event_base *base;
  const struct log *log;
  struct secrets *secrets;              /* its masker is also the log's */
  struct supervisor_options supervisor; /* the engine sets its job and its log */
  int signal_fd;                        /* of startup.h; -1: the caller reads the signals */
  int64_t idle_limit_ms;                /* without a step; 0: no limit */
  size_t line_bytes;                    /* a longer line is split: see lines.h */
  const char *version;                  /* of the program, for the dump */
  const char *job_id;                   /* a part of the tags of commands; NULL: no job */
  struct kind_context kind;
  /* How long the running step may go on after the first SIGTERM; 0: not at all. Only for a frontend
     with one execution at a time. */
  int64_t drain_ms;
  uint64_t memory_reserve; /* in bytes: see resource_guard.h */
};

struct engine *engine_new(const struct engine_options *options);
void engine_free(struct engine *self);

/* To be called once, before engine_run. The frontend must outlive the engine's last callback. */
void engine_set_frontend(struct engine *self, struct frontend *frontend);

/* Returns the exit code (exit_code.h). */
int engine_run(struct engine *self);

/* --- what a frontend calls -------------------------------------------------------------------- */

/* Makes an execution of the request, which is empty afterwards. Only as often as want() allows. */
void engine_submit(struct frontend *frontend, struct request *request);

/* Lets the execution begin: its start is as durable as the frontend promises. Does nothing if it
   was stopped in the meantime. */
void engine_start(struct execution *execution);

/* Ends an execution: SIGTERM, `grace_ms`, SIGKILL; 0: SIGKILL now. Before engine_start it ends
   without having executed anything. Its result has the cause and `reason`. A second call can only
   shorten the grace. */
void engine_stop(struct execution *execution, int64_t grace_ms, enum step_cause cause,
                 const char *reason);

/* Tells the engine that the frontend has more capacity than before. */
void engine_capacity_freed(struct frontend *frontend);

/* Calls engine_stop for the execution of this step, with the grace of the frontend's terms. Returns
   false if there is none. */
bool engine_cancel(struct frontend *frontend, const char *step_id, const char *reason);

/* Masks the error of a rejected step, including the secrets that its payload names. */
void engine_mask_rejected(struct frontend *frontend, const char *payload, size_t length,
                          struct error *error);

/* Appends what the kernel can enforce on steps, as two members of a JSON object with these names,
   each with a comma before it: the ABI of Landlock, and an array of words. */
void engine_add_abilities(const struct frontend *frontend, const char *abi, const char *list,
                          struct buffer *json);

/* Returns the text of the `started` event of a step that has not begun, with its secrets masked.
   The caller frees it. */
char *engine_step_title(struct frontend *frontend, const struct step *step);

/* Waits, for at most SUPERVISORS_GIVE_UP_MS, until the supervisors of this job's killed agents have
   ended their processes. Returns true if there are none; else interrupted_ended() follows. */
bool engine_await_dead_agents(struct frontend *frontend);

/* Starts the idle time again, because a request arrived that needs no execution. */
void engine_touch(struct frontend *frontend);

/* Returns the milliseconds until idle() is called; 0 if it is not going to be. */
int64_t engine_idle_left_ms(const struct frontend *frontend);

/* Answers idle(): the engine asks again after this many milliseconds without a step; 0: after
   another idle limit. */
void engine_wait_on(struct frontend *frontend, int64_t milliseconds);

/* Ends the program with this exit code: no more requests, then the executions end. `reason` is for
   the log and for the results of what runs ("shutdown step"), and must outlive the engine. Only the
   first call counts, and a signal's exit code stays. */
void engine_leave(struct frontend *frontend, int exit_code, const char *reason);

/* Returns that reason; NULL while the program is not ending. */
const char *engine_leaving(const struct frontend *frontend);

/* Whether the program is ending, or waits for the running step to end before that. */
bool engine_is_ending(const struct frontend *frontend);

/* Answers close(). `lost`: 0 if everything was delivered, else the program's exit code, unless a
   signal determines that. */
void engine_frontend_closed(struct frontend *frontend, int lost);

/* --- what signals.h calls --------------------------------------------------------------------- */

/* SIGUSR1 logs the state. The first other signal ends the program within ENGINE_DEADLINE_MS, and
   sets the exit code; a graceful close becomes fast. The second signal ends everything at once. */
void engine_signal(struct engine *self, int signal);

/* An orchestrator gives the program 10 s after SIGTERM (wire/PROTOCOL.md). */
#define ENGINE_DEADLINE_MS 7500

/* Handles SIGCHLD. */
void engine_reap(struct engine *self);

/* Returns whether any process of a step lives; may read /proc. */
bool engine_find_processes(struct engine *self);
