#include "agent/engine/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loop.h"

/* Signals in one read; for more the event comes again. */
#define AT_ONCE 4

static void reap(struct signals *self) {
  for (siginfo_t info;;) {
    info.si_pid = 0;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
      return;
    self->handler->child_ended(self->owner, info.si_pid);
    int status;
    if (waitpid(info.si_pid, &status, WNOHANG) == info.si_pid)
      self->handler->reaped(self->owner, info.si_pid, status);
  }
}

static void on_readable(evutil_socket_t fd, short what, void *context) {
  (void)what;
  struct signals *self = context;
  struct signalfd_siginfo infos[AT_ONCE];
  ssize_t length = read((int)fd, infos, sizeof infos);
  for (ssize_t i = 0; length > 0 && i < length / (ssize_t)sizeof *infos; i++)
    if (infos[i].ssi_signo == SIGCHLD)
      reap(self);
    else
      self->handler->ordered(self->owner, (int)infos[i].ssi_signo);
}

void signals_init(struct signals *self, struct event_base *base, int fd,
                  const struct signals_handler *handler, void *owner) {
  *self = (struct signals){.handler = handler, .owner = owner};
  self->readable = loop_event_new(base, fd, EV_READ | EV_PERSIST, on_readable, self);
}

void signals_release(struct signals *self) {
  event_free(self->readable);
}
