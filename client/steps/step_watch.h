#pragma once

#include <signal.h>

#include "client/access.h"
#include "client/steps/history.h"

/*
 * Waits for a step, as `run` and `follow` do: runs the loop, reads the job's events, each once and
 * in order, also across lost connections, and reports what else happens, one thing per turn
 * (watch_report in access.h).
 *
 *   step_watch_begin(&watch, program, &handler, owner);
 *   watch.last: the events behind this entry are read
 *   step_watch_read(&watch);
 *   step_watch_expect(&watch, id);
 *   report = step_watch_turn(&watch);                     until the step is over
 *   step_watch_end(&watch);
 */
struct step_watch_handler {
  void (*event)(void *owner, const struct event_view *view);
  /* All events that were available have been delivered. */
  void (*turn)(void *owner);
  /* The events cannot be read: the peer refuses permanently. */
  void (*failed)(void *owner, const char *why);
  bool pushes; /* the owner pushes the steps for which it waits */
};

enum watch_step { WATCH_STEP_WAITS, WATCH_STEP_IS_PLACED, WATCH_STEP_STARTED };

enum watch_output { WATCH_OUTPUT_IGNORED, WATCH_OUTPUT_READ, WATCH_OUTPUT_LOST };

struct step_watch {
  struct program *program;
  const char *id;           /* NULL: all steps, of which none can be absent */
  enum watch_step step;     /* placed: it was said what it waits for */
  enum watch_output output; /* the owner sets it: READ to be told, LOST if a write failed */
  void *source;             /* of the events: access.h */
  const struct step_watch_handler *handler;
  void *owner;
  bool wants_events;
  char last[ENTRY_ID_SIZE];  /* the last entry that was read; the owner sets the first one */
  char again[ENTRY_ID_SIZE]; /* the stream is read again up to this entry; "": it is not */
  uint64_t acknowledged;     /* the highest seq that was sent, unless it was lost */
  struct error error;        /* WATCH_PEER_GONE: why */
  int signal_fd;
  sigset_t mask; /* of signals, before they were caught */
  struct event *signals, *tick;
  struct event *writable;                   /* of the output that is behind; NULL: not waited for */
  int64_t checked_ms, alive_ms, present_ms; /* monotonic: the last check, heartbeat, and place */
  bool is_away_reported;                    /* WATCH_AGENT_AWAY */
  bool is_loss_reported;                    /* WATCH_OUTPUT_GONE */
  char *running;          /* the step that runs while the own one waits; NULL: none yet */
  char *command;          /* of that step */
  struct started started; /* of that step */
};

void step_watch_begin(struct step_watch *self, struct program *program,
                      const struct step_watch_handler *handler, void *owner);

/* From now until the end, signals (signals.h) do not end the process, and calls stop soon after
   one. */
void step_watch_catch_signals(struct step_watch *self);

/* Takes a signal that has arrived. Returns 0 if there is none. */
int step_watch_take_signal(struct step_watch *self);

/* Reads events from now on, also after a failure, except while output that shows them is behind. */
void step_watch_read(struct step_watch *self);

/* Waits for this step from now on; NULL: for none. The id is borrowed. */
void step_watch_expect(struct step_watch *self, const char *id);

/* Notes that the step has started, and no longer waits in the lists. */
void step_watch_set_started(struct step_watch *self);

/* Looks for the step in the next turn instead of after 2 s. A log need not say anymore what it
   waits for. */
void step_watch_check_soon(struct step_watch *self);

/* Runs the loop once. Returns the first of several reports. The others come again. */
enum watch_report step_watch_turn(struct step_watch *self);

/* Says that there is no heartbeat. */
void step_watch_warn_of_agent(struct step_watch *self);

/* Says that the agent is gone. Returns the exit code. */
int step_watch_fail_agent(struct step_watch *self);

/* Says that the peer is gone, and why. Returns the exit code. */
int step_watch_fail_peer(struct step_watch *self);

/* Looks whether the step is in the lists. If that fails, it counts as there. */
bool step_watch_look(struct step_watch *self);

/* Whether the step and the agent are to be looked for, every 2 s. */
bool step_watch_is_due(struct step_watch *self, int64_t now_ms);

void step_watch_end(struct step_watch *self);
