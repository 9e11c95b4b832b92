#ifndef AGENT_ENGINE_SHUTDOWN_H
#define AGENT_ENGINE_SHUTDOWN_H

#include <event2/event.h>
#include <stdbool.h>

/*
 * The end of the program, in this order: no more requests, the executions end and are answered,
 * the processes that earlier steps left in the background end, the frontend delivers what it
 * queues, the event loop ends. A frontend starts it with engine_leave, a signal with engine_signal.
 *
 *   RUNNING --leave--> ENDING_STEPS --over--> ENDING_TREE --gone--> CLOSING --closed--> OVER
 *     |                    `------no step------^
 *     `--SIGTERM--> DRAINING --steps over, SIGTERM, limit--> as if leaving now
 *
 * Another signal, or a limit, goes to CLOSING at once, with FRONTEND_CLOSE_IMMEDIATE.
 */
enum shutdown_phase {
  SHUTDOWN_RUNNING,
  SHUTDOWN_DRAINING,
  SHUTDOWN_ENDING_STEPS,
  SHUTDOWN_ENDING_TREE,
  SHUTDOWN_CLOSING,
  SHUTDOWN_OVER
};

/* A part of struct engine. */
struct shutdown {
  enum shutdown_phase phase;
  struct event *outage_limit; /* how long a graceful close waits for a server that is away */
  struct event *deadline;     /* after a signal */
  const char *reason;         /* NULL: the program does not end */
  int exit_code;
  int signal; /* the first one that ends the program; 0: none */
};

struct engine;

void shutdown_init(struct engine *engine);
void shutdown_release(struct engine *engine);

/* Whether the program ends or drains. */
bool shutdown_has_begun(const struct engine *engine);

/* The last execution is over. */
void shutdown_no_executions(struct engine *engine);

/* Begins the end, or continues it faster: see engine_signal. */
void shutdown_signal(struct engine *engine, int signal);

#endif
