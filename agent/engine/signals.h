#ifndef AGENT_ENGINE_SIGNALS_H
#define AGENT_ENGINE_SIGNALS_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Reports signals as events of the loop, from the signalfd that startup.h makes: orders to this
 * program, and children that have ended. It reaps them all, also those that it did not start:
 * orphans become children of this program, which is a subreaper and in a container PID 1. Those that
 * have stopped since they asked to be traced go on (agent/process/traced_child.h).
 *
 * What a step sends is no order: SIGTERM to process 1 would end the job. An order comes from the
 * kernel (a terminal), from outside the pid namespace, where the sender has no pid, or from a
 * process that does not descend from this one. What a sender can invent (sigqueue, F_SETSIG) does
 * not count; SIGUSR1, which only asks, does, whoever sends it. A sender that is gone or forgotten
 * when its signal is read may have been a step's, as long as there is one.
 */
struct signals_handler {
  void (*ordered)(void *owner, int signal);    /* SIGTERM, SIGINT, SIGHUP, SIGQUIT; SIGUSR1 */
  void (*refused)(void *owner, int signal);    /* one that was no order; at most one a second */
  bool (*has_steps)(void *owner);              /* whether any process of a step may be there */
  void (*child_ended)(void *owner, pid_t pid); /* it is dead, and reaped next */
  void (*reaped)(void *owner, pid_t pid, int status);
};

struct signals {
  const struct signals_handler *handler;
  void *owner;
  struct event *readable;
  struct event *reap_on; /* pending while there may be more children than are looked at in a turn */
  int64_t refused_ms;    /* when `refused` was called last; monotonic, 0: never */
  int64_t asked_ms;      /* and `ordered` with SIGUSR1 */
};

/* The descriptor remains the caller's. Handler and signals must stay in place until
 * signals_release. */
void signals_init(struct signals *self, struct event_base *base, int fd,
                  const struct signals_handler *handler, void *owner);
void signals_release(struct signals *self);

#endif
