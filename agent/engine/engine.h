#ifndef AGENT_ENGINE_ENGINE_H
#define AGENT_ENGINE_ENGINE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/engine/frontend.h"
#include "agent/engine/secrets.h"
#include "agent/kinds/kind.h"
#include "agent/process/supervisors.h"
#include "base/log.h"

/*
 * Runs steps and reports them through a frontend (frontend.h). It holds the one table of runs, in
 * which a pid finds its run, waits for requests until the idle limit, and ends everything in order.
 *
 *   engine = engine_new(&options)
 *   engine_set_frontend(engine, frontend)
 *   exit_code = engine_run(engine)        runs the event loop until the shutdown is over
 *   engine_free(engine)                   the frontend is its owner's to free, afterwards
 */
struct engine;

/* Everything that is pointed to must outlive the engine. */
struct engine_options {
  struct event_base *base;
  const struct log *log;
  struct secrets *secrets;                /* its masker is the log's, too */
  struct supervisors_options supervisors; /* its base and its job are the engine's */
  int signal_fd;                          /* of startup.h; -1: signals are somebody else's */
  int64_t idle_limit_ms;                  /* without a step; 0: there is no limit */
  size_t line_bytes;                      /* of the longest line that comes whole, see lines.h */
  const char *version;                    /* of the program, for the state */
  const char *job_id;                     /* a part of the tags of commands; NULL: no job */
  struct kind_context kind;
  /* For what runs at the first SIGTERM; 0: none. Of a frontend with one run at a time. */
  int64_t drain_ms;
  uint64_t memory_reserve; /* bytes: see memory_guard.h */
  bool keeps_spare;        /* one supervisor waits for the next step */
};

struct engine *engine_new(const struct engine_options *options);
void engine_free(struct engine *self);

/* Once, before engine_run. The frontend must outlive the engine's last callback. The grace and the
   drain of its terms are taken here; the rest is read when it is needed. */
void engine_set_frontend(struct engine *self, struct frontend *frontend);

/* Returns the exit code (exit_code.h). */
int engine_run(struct engine *self);

/* --- what a frontend calls -------------------------------------------------------------------- */

/* Makes a run of the request, which is empty afterwards. Only as many as want() has said. */
void engine_submit(struct frontend *frontend, struct request *request);

/* The run may execute: its start is as durable as the frontend promises. Nothing happens when it
   was cancelled meanwhile. */
void engine_start(struct execution *execution);

/* Ends this run as at its deadline, with so long from SIGTERM to SIGKILL (0: SIGKILL now); without
   executing it, when engine_start was not called yet. Its result has the cause and `reason`. A
   second call can only shorten the grace. */
void engine_stop(struct execution *execution, int64_t grace_ms, enum step_cause cause,
                 const char *reason);

/* There is more room than before. */
void engine_capacity_freed(struct frontend *frontend);

/* engine_stop for the run of this step, with the grace of the frontend's terms. False: there is
   none. */
bool engine_cancel(struct frontend *frontend, const char *step_id, const char *reason);

/* Masks the error of a step that is rejected, also the secrets that its payload names. */
void engine_mask_rejected(struct frontend *frontend, const char *payload, size_t length,
                          struct error *error);

/* Waits until what agents of this job that were killed have left is ended, which their supervisors
   do; not for ever. True: there is nothing; else interrupted_ended() follows. */
bool engine_await_dead_agents(struct frontend *frontend);

/* A request arrived that needs no run: idle time begins anew. */
void engine_touch(struct frontend *frontend);

/* How long until idle() is called, in milliseconds; 0: it is not going to be, as things are. */
int64_t engine_idle_left_ms(const struct frontend *frontend);

/* The answer to idle(): asks again after so many milliseconds without a step; 0: after another idle
   limit. */
void engine_wait_on(struct frontend *frontend, int64_t milliseconds);

/* Stops taking requests, ends what runs, and then the program with this exit code. `reason` is for
   the log and for the results of what runs ("shutdown step"), and must outlive the engine. Only the
   first call counts; the exit code of a signal stays. */
void engine_leave(struct frontend *frontend, int exit_code, const char *reason);
/* The reason, NULL while the program is not ending. */
const char *engine_leaving(const struct frontend *frontend);

/* The end of close(). `lost`: 0 when all that the engine gave to the frontend was delivered, else
   the program's exit code, unless a signal has said another. */
void engine_frontend_closed(struct frontend *frontend, int lost);

/* --- what signals call ---------------------------------------------------------------------- */

/* The first one that orders the end sets the exit code and a deadline, and a close that was patient
   becomes prompt. The second one ends everything at once. */
void engine_signal(struct engine *self, int signal);

/* After a signal the program exits by then, whatever happens. An orchestrator gives it 10 s
   (wire/PROTOCOL.md). */
#define ENGINE_DEADLINE_MS 7500

/* At SIGCHLD. */
void engine_reap(struct engine *self);

#endif
