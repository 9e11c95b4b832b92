#include "agent/engine/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "agent/process/process_table.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/printable.h"

/* The signals of one read. If there are more, the event fires again. */
#define SIGNALS_AT_ONCE 4

/* A step may send any number of signals: at most one per second is logged or dumps the state. */
#define PAUSE_MS 1000

struct signals {
  struct engine *engine;
  const struct log *log;
  struct event *readable;
  int fd;
  int64_t ignored_ms; /* when an ignored signal was logged last; monotonic, 0: never */
  int64_t dumped_ms;  /* when the state was dumped last */
};

enum origin { ORIGIN_STEP, ORIGIN_OTHER, ORIGIN_GONE };

/* A step may nest its processes deeper and send a signal from each of them. Reading all of their
   ancestors would stall the event loop. */
#define ANCESTORS_MAX 256

/* An ancestor may end in the meantime. A process that exists but cannot be seen is another
   user's. */
static enum origin find_origin(pid_t pid) {
  const pid_t agent = getpid();
  for (int steps = 0; steps < ANCESTORS_MAX; steps++) {
    if (pid == agent)
      return ORIGIN_STEP;
    if (pid == 0)
      return ORIGIN_OTHER;
    pid_t parent = process_table_parent(pid);
    if (parent == 0 && process_table_parent(pid) != 0)
      return ORIGIN_GONE; /* it was reaped while it was read */
    if (parent < 0)
      return kill(pid, 0) != 0 && errno == EPERM ? ORIGIN_OTHER : ORIGIN_GONE;
    pid = parent;
  }
  return ORIGIN_GONE;
}

/* Without /proc only the agent's parent, process 1 and the agent's session are no steps. */
static enum origin origin_of_process(pid_t pid) {
  if (pid == getpid())
    return ORIGIN_OTHER;
  if (!process_table_is_known()) {
    pid_t session = getsid(pid);
    if (session < 0)
      return ORIGIN_GONE;
    return pid == 1 || pid == getppid() || session == getsid(0) ? ORIGIN_OTHER : ORIGIN_STEP;
  }
  enum origin origin = find_origin(pid);
  for (int again = 0; origin == ORIGIN_GONE && again < 2; again++)
    origin = find_origin(pid);
  return origin;
}

/* If the user has as many pending signals as allowed, the kernel forgets the sender of the next one
   and it looks as if it came from outside. Half of the limit is enough for suspicion, because some
   may be delivered already. All of them may be if the sender has ended:
   confinement/filter.h closes that gap. */
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

static enum origin origin_of(const struct signalfd_siginfo *info) {
  if (info->ssi_code == SI_KERNEL)
    return ORIGIN_OTHER;
  if (info->ssi_code != SI_USER && info->ssi_code != SI_TKILL)
    return ORIGIN_STEP;
  if (info->ssi_pid == 0)
    return may_be_forgotten() ? ORIGIN_GONE : ORIGIN_OTHER;
  return origin_of_process((pid_t)info->ssi_pid);
}

static bool is_from_step(const struct signals *self, const struct signalfd_siginfo *info) {
  enum origin origin = origin_of(info);
  return origin == ORIGIN_STEP || (origin == ORIGIN_GONE && engine_find_processes(self->engine));
}

/* Returns true, and sets the time, if the last time was long enough ago. */
static bool start_pause(int64_t *last_ms) {
  int64_t now_ms = clock_monotonic_ms();
  if (*last_ms != 0 && now_ms < *last_ms + PAUSE_MS)
    return false;
  *last_ms = now_ms;
  return true;
}

static void handle(struct signals *self, const struct signalfd_siginfo *info) {
  int signal = (int)info->ssi_signo;
  if (signal == SIGCHLD) {
    engine_reap(self->engine);
  } else if (signal == SIGUSR1) {
    if (start_pause(&self->dumped_ms))
      engine_signal(self->engine, signal);
  } else if (!is_from_step(self, info)) {
    engine_signal(self->engine, signal);
  } else if (start_pause(&self->ignored_ms)) {
    log_line(self->log, LOG_WARN, NULL, "a step sent %s: ignored", printable_signal(signal));
  }
}

LOOP_CALLBACK(on_readable, struct signals *self) {
  struct signalfd_siginfo infos[SIGNALS_AT_ONCE];
  ssize_t length = read(self->fd, infos, sizeof infos);
  for (ssize_t i = 0; length > 0 && i < length / (ssize_t)sizeof *infos; i++)
    handle(self, &infos[i]);
}

struct signals *signals_new(struct engine *engine, struct event_base *base, int fd,
                            const struct log *log) {
  struct signals *self = memory_allocate(sizeof *self);
  *self = (struct signals){.engine = engine, .log = log, .fd = fd};
  self->readable = loop_event_new(base, fd, EV_READ | EV_PERSIST, on_readable, self);
  return self;
}

void signals_free(struct signals *self) {
  event_free(self->readable);
  free(self);
}
