#include "agent/engine/signals.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/process_origin.h"
#include "agent/process/process_table.h"
#include "agent/process/traced_child.h"
#include "base/clock.h"
#include "base/loop.h"

/* Signals in one read; for more the event comes again. */
#define AT_ONCE 4

/* A step may send any number: what they lead to in the log comes once in this time. */
#define LOGGED_MS 1000

/* Children that are looked at in one turn of the loop. */
#define CHILDREN_AT_ONCE 1024

static void reap_one(struct signals *self, pid_t pid) {
  int status;
  if (waitpid(pid, &status, WNOHANG) == pid)
    self->handler->reaped(self->owner, pid, status);
}

/* Those that have stopped go on when all others were looked at: they may stop again at once, and
   come first. */
static void reap(struct signals *self) {
  struct traced_child stopped[CHILDREN_AT_ONCE];
  size_t count = 0;
  int looked_at = 0;
  for (; looked_at < CHILDREN_AT_ONCE; looked_at++) {
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
      break;
    if (!traced_child_has_stopped(&info))
      reap_one(self, info.si_pid);
    else if (traced_child_take(&stopped[count], info.si_pid))
      count++;
  }
  while (count > 0) {
    traced_child_release(&stopped[--count]);
    self->handler->stopped(self->owner, stopped[count].pid);
  }
  if (looked_at == CHILDREN_AT_ONCE)
    loop_timer_start(self->reap_on, 0);
}

static void on_reap_on(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  reap(context);
}

/* Where as many signals of the user are pending as may be, the kernel forgets who sent one, which
   then looks like one from outside. Half of that is enough: some may be gone again. All may be, when
   the sender has ended: call_filter.h has what is certain. */
static bool may_be_forgotten(void) {
  static const char name[] = "\nSigQ:";
  char status[4096];
  char *slash;
  if (process_table_read_file(getpid(), "status", status, sizeof status) <= 0)
    return false;
  const char *field = strstr(status, name);
  if (field == NULL)
    return false;
  unsigned long pending = strtoul(field + sizeof name - 1, &slash, 10);
  return *slash == '/' && pending >= strtoul(slash + 1, NULL, 10) / 2;
}

static bool is_order(struct signals *self, const struct signalfd_siginfo *info) {
  if (info->ssi_code == SI_KERNEL)
    return true;
  if (info->ssi_code != SI_USER && info->ssi_code != SI_TKILL)
    return false;
  if (info->ssi_pid == 0 && !may_be_forgotten())
    return true;
  switch (info->ssi_pid == 0 ? PROCESS_GONE : process_origin_of((pid_t)info->ssi_pid)) {
  case PROCESS_OF_STEP:
    return false;
  case PROCESS_OTHER:
    return true;
  case PROCESS_GONE:
    break;
  }
  return !self->handler->has_steps(self->owner);
}

/* Whether it is too soon after the time before; else this is the time. */
static bool is_too_soon(int64_t *last_ms) {
  int64_t now_ms = clock_monotonic_ms();
  if (*last_ms != 0 && now_ms < *last_ms + LOGGED_MS)
    return true;
  *last_ms = now_ms;
  return false;
}

/* The question for the state ends nothing, so everybody may ask; who does so from a shell in the
   container is gone when it is read. */
static void take(struct signals *self, const struct signalfd_siginfo *info) {
  int signal = (int)info->ssi_signo;
  if (signal == SIGUSR1) {
    if (!is_too_soon(&self->asked_ms))
      self->handler->ordered(self->owner, signal);
  } else if (is_order(self, info)) {
    self->handler->ordered(self->owner, signal);
  } else if (!is_too_soon(&self->refused_ms)) {
    self->handler->refused(self->owner, signal);
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
      take(self, &infos[i]);
}

void signals_init(struct signals *self, struct event_base *base, int fd,
                  const struct signals_handler *handler, void *owner) {
  *self = (struct signals){.handler = handler, .owner = owner};
  self->reap_on = loop_timer_new(base, on_reap_on, self);
  self->readable = loop_event_new(base, fd, EV_READ | EV_PERSIST, on_readable, self);
}

void signals_release(struct signals *self) {
  event_free(self->readable);
  event_free(self->reap_on);
}
