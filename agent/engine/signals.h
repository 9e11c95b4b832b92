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
 * have stopped because they asked to be traced go on (agent/process/traced_child.h).
 *
 * A signal is an order when it comes from the kernel (a terminal), from outside the pid namespace,
 * where the sender has no pid, or from a process that does not descend from this one. A signal of a
 * step is no order: SIGTERM to process 1 would end the job. Nor is one whose sender can be invented
 * (sigqueue, F_SETSIG), or is gone when the signal is read while there are steps: it may have been a
 * step's. SIGUSR1 only asks, and is an order whoever sends it.
 */
struct signals_handler {
  void (*ordered)(void *owner, int signal); /* SIGTERM, SIGINT, SIGHUP, SIGQUIT; SIGUSR1 */
  void (*refused)(void *owner, int signal); /* one that was no order; at most one a second */
  bool (*has_steps)(void *owner);           /* whether any process of a step may be there */
  void (*reaped)(void *owner, pid_t pid, int status);
  void (*stopped)(void *owner, pid_t pid); /* a child, by a signal */
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
