#ifndef AGENT_ENGINE_SIGNALS_H
#define AGENT_ENGINE_SIGNALS_H

#include <event2/event.h>
#include <sys/types.h>

/*
 * Signals as events of the loop, from the signalfd that startup.h makes: orders to stop, and children
 * that have ended, which are reaped here. Strangers too: orphans come to this process, and in a
 * container it is everybody's last parent.
 */
struct signals_handler {
  void (*ordered)(void *owner, int signal); /* SIGTERM, SIGINT, SIGHUP, SIGQUIT; SIGUSR1 */
  void (*reaped)(void *owner, pid_t pid, int status);
};

struct signals {
  const struct signals_handler *handler;
  void *owner;
  struct event *readable;
};

/* The descriptor stays the caller's; handler and signals stay where they are. */
void signals_init(struct signals *self, struct event_base *base, int fd,
                  const struct signals_handler *handler, void *owner);
void signals_release(struct signals *self);

#endif
