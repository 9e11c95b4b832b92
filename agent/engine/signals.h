#ifndef AGENT_ENGINE_SIGNALS_H
#define AGENT_ENGINE_SIGNALS_H

#include <event2/event.h>
#include <sys/types.h>

/*
 * Reports signals as events of the loop, from the signalfd that startup.h makes: orders to this
 * program, and children that have ended. It reaps them all, also those that it did not start:
 * orphans become children of this program, which is a subreaper and in a container PID 1.
 */
struct signals_handler {
  void (*ordered)(void *owner, int signal);    /* SIGTERM, SIGINT, SIGHUP, SIGQUIT; SIGUSR1 */
  void (*child_ended)(void *owner, pid_t pid); /* it is dead, and reaped next */
  void (*reaped)(void *owner, pid_t pid, int status);
};

struct signals {
  const struct signals_handler *handler;
  void *owner;
  struct event *readable;
};

/* The descriptor remains the caller's. Handler and signals must stay in place until
 * signals_release. */
void signals_init(struct signals *self, struct event_base *base, int fd,
                  const struct signals_handler *handler, void *owner);
void signals_release(struct signals *self);

#endif
