#ifndef AGENT_ENGINE_SHUTDOWN_H
#define AGENT_ENGINE_SHUTDOWN_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/engine/door.h"
#include "agent/process/keepers.h"
#include "base/log.h"

/*
 * The end of the program, in this order: no more requests, the runs end and are answered, what
 * earlier steps left in the background ends, the door delivers what it holds, the loop ends.
 *
 *   RUNNING --begin--> ENDING_RUNS --runs over--> ENDING_TREE --tree gone--> CLOSING --closed-->
 * OVER
 *                          `---------no run----------^
 *
 * A second signal, or a deadline, goes to CLOSING at once and closes the door with DOOR_CLOSE_NOW.
 */
enum shutdown_state {
  SHUTDOWN_RUNNING,
  SHUTDOWN_ENDING_RUNS,
  SHUTDOWN_ENDING_TREE,
  SHUTDOWN_CLOSING,
  SHUTDOWN_OVER
};

/* After a signal the program exits by then, whatever happens. An orchestrator gives it 10 s
   (wire/PROTOCOL.md). */
#define SHUTDOWN_DEADLINE_MS 7500

struct shutdown {
  struct event_base *base;
  const struct log *log;
  struct door *door;
  enum shutdown_state state;
  struct keepers *keepers;
  struct event *outage_limit; /* how long a patient close waits for a server that is away */
  struct event *deadline;     /* after a signal */
  const char *reason;         /* NULL: it does not end */
  int exit_code;
  int signal; /* the first one that ordered the shutdown; 0 for none */
};

/* The shutdown must stay where it is. */
void shutdown_init(struct shutdown *self, struct event_base *base, const struct log *log,
                   struct keepers *keepers);
void shutdown_release(struct shutdown *self);

/* Once. `outage_limit_ms` bounds the whole shutdown; 0: nothing does. With `runs` the owner ends
   them and calls shutdown_runs_over. The reason must outlive it. */
void shutdown_begin(struct shutdown *self, struct door *door, int exit_code, const char *reason,
                    int64_t outage_limit_ms, bool runs);
void shutdown_runs_over(struct shutdown *self);

/* A signal ordered the end. The first one sets a deadline and the exit code, and a close that was
   patient becomes prompt; true: it has to be begun. The second one ends everything at once. */
bool shutdown_signal(struct shutdown *self, struct door *door, int signal);

/* The door is closed; see engine_door_closed. */
void shutdown_closed(struct shutdown *self, int lost);

#endif
