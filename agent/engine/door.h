#ifndef AGENT_ENGINE_DOOR_H
#define AGENT_ENGINE_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/engine/run_end.h"
#include "wire/step.h"
#include "wire/step_report.h"

/* The most runs at once. */
#define ENGINE_RUNS_MAX 16

/* What a door asks for its runs; times in milliseconds. */
struct door_terms {
  unsigned runs;          /* at once, from 1 to ENGINE_RUNS_MAX */
  int64_t grace_ms;       /* from SIGTERM to SIGKILL, at a deadline and when a run is stopped */
  int64_t drain_ms;       /* how long a background process may hold the output of what is over */
  int64_t leave_grace_ms; /* from SIGTERM to SIGKILL when the program ends, of the runs */
  int64_t leave_background_ms; /* and then of what they and earlier ones left in the background */
  /* 0: a command's output becomes events, line by line. Else it is kept raw: so many bytes of the
     beginning of each stream. */
  size_t output_bytes;
  size_t tail_bytes; /* and so many of the end of one that is longer; at most `output_bytes` */
};

/* The terms of steps as wire/PROTOCOL.md has them: one at a time. The grace and the drain of a process
   and the time after which it is given up fit into the 30 s that a server waits after timeoutSeconds; the end of the
   program fits into the 10 s that an orchestrator gives it. */
#define DOOR_TERMS_OF_PROTOCOL                                                                     \
  {                                                                                                \
    .runs = 1, .grace_ms = 10000, .drain_ms = 1500, .leave_grace_ms = 5000,                        \
    .leave_background_ms = 1000                                                                    \
  }

/*
 * A door: a way for steps into the engine, and for their events and results out of it. This is all
 * that an engine knows of one. A door embeds struct door as its first member, fills in `type` and
 * `terms`, and is given to engine_set_door.
 *
 *   engine                               door
 *     want(n)              ------->        n more requests may be submitted
 *                          <-------      engine_submit(request)
 *     begin(run)           ------->        makes the start as durable as this door promises
 *                          <-------      engine_start(run), from inside begin() or later
 *     event(…), flush()    ------->        output, while room() is not 0, of doors that have events
 *                          <-------      engine_room(): there is room again
 *     result(…), flush()   ------->        once for each run; the run is over
 *                          <-------      engine_cancel(step id), at any time
 *                          <-------      engine_await_dead_agents(): of earlier agents
 *     interrupted_ended()  ------->        nothing of it runs any more
 *                          <-------      engine_leave(exit code): no more steps
 *     close(how)           ------->        no run is left: deliver what is held
 *                          <-------      engine_door_closed()
 *
 * The engine calls a door from the event loop, never from inside one of the engine's functions that
 * the door called, with three exceptions: engine_submit calls begin(), event() and flush();
 * engine_room calls event() and flush(); and whatever ends a run may call result() and want().
 */
struct door {
  const struct door_type *type;
  struct engine *engine;
  struct door_terms terms; /* its grace and its drain: as engine_set_door found them */
};

struct run;

/* One step that a door wants to be run. engine_submit takes it over. */
struct request {
  struct step step; /* checked, of a kind that is run (step_is_work) */
  void *ticket;     /* the door's own name for it, given back with the result */
};

/* How urgent the end of a door is. */
enum door_close {
  DOOR_CLOSE_PATIENT, /* deliver everything, also to a server that is away at the moment */
  DOOR_CLOSE_PROMPT,  /* deliver what can be delivered now; do not wait for a server that is away */
  DOOR_CLOSE_NOW      /* deliver nothing more: log what is lost */
};

struct door_type {
  const char *name; /* for the log */

  /* So many more requests may be submitted, now or later. 0: none any more, the engine ends. */
  void (*want)(struct door *self, unsigned requests);

  /* The run was made; its `started` event follows with event() before this is called. */
  void (*begin)(struct door *self, struct run *run);

  /* Bytes of output that the door takes now. While it is less than what a run has, the run's pipes
     are not read and the command waits; engine_room says when to ask again. The door calls it from
     the loop whenever there is room again after there was none, also when a flush() has made the
     room before it returned: nobody asks after a flush. NULL: always enough. */
  size_t (*room)(const struct door *self);

  /* NULL: the door has no events. */
  void (*event)(struct door *self, const struct run *run, const struct step_event *event);

  /* What was given so far is to leave now. NULL: it leaves by itself. */
  void (*flush)(struct door *self);

  /* The run is over. Everything is valid during the call only. */
  void (*result)(struct door *self, const struct run *run, const struct run_end *end);

  /* The number of runs that execute has changed. May be NULL. */
  void (*activity)(struct door *self, unsigned running);

  /* The answer to engine_await_dead_agents, when it has returned false. NULL where that is never
     called. */
  void (*interrupted_ended)(struct door *self);

  /* The idle limit is reached. Answers, now or later, with engine_wait_on or engine_leave; an
     engine_submit in between withdraws the question. */
  void (*idle)(struct door *self);

  /* See enum door_close. May be called again, to be more urgent. Answers with engine_door_closed,
     once; with DOOR_CLOSE_NOW before it returns. */
  void (*close)(struct door *self, enum door_close how);

  /* Logs its state in a few lines: what it is connected to, what it holds. */
  void (*dump)(const struct door *self);
};

/* What a door may ask of a run. */
const struct step *run_step(const struct run *run);
const struct log *run_log(const struct run *run); /* for lines about it */
void *run_ticket(const struct run *run);

/* The end for doors of steps: the run's last event, and its result. */
struct step_end {
  struct step_event completed;
  struct step_result result;
  char text[64];     /* of the event */
  struct error line; /* of the result */
};

/* To be called from result(), with what that was given; `out` is valid as long, where it is. */
void run_step_end(const struct run *run, const struct run_end *end, struct step_end *out);

/* Where the door's terms have output_bytes: the bytes that the command has printed so far; and its
   last line that is not empty, of either stream, cut at `size` bytes and at a UTF-8 boundary:
   returns its length. */
uint64_t run_output_total(const struct run *run);
size_t run_last_line(const struct run *run, char *out, size_t size);

#endif
