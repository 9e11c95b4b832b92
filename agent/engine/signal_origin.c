#include "agent/engine/signal_origin.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "agent/process/process_table.h"

/* A step may nest its processes deeper, and send a signal from each: to read them all would stall
   the event loop. */
#define ANCESTORS_MAX 256

/* An ancestor may end meanwhile. One that exists and cannot be seen is another user's. */
static enum signal_origin find_origin(pid_t pid) {
  const pid_t agent = getpid();
  for (int steps = 0; steps < ANCESTORS_MAX; steps++) {
    if (pid == agent)
      return SIGNAL_OF_STEP;
    if (pid == 0)
      return SIGNAL_OF_OTHER;
    pid_t parent = process_table_parent(pid);
    if (parent == 0 && process_table_parent(pid) != 0)
      return SIGNAL_OF_GONE; /* it was reaped while it was read */
    if (parent < 0)
      return kill(pid, 0) != 0 && errno == EPERM ? SIGNAL_OF_OTHER : SIGNAL_OF_GONE;
    pid = parent;
  }
  return SIGNAL_OF_GONE;
}

/* Without /proc, the agent's parent, process 1 and those of its session are others. */
static enum signal_origin origin_of_process(pid_t pid) {
  if (pid == getpid())
    return SIGNAL_OF_OTHER;
  if (!process_table_is_known()) {
    pid_t session = getsid(pid);
    if (session < 0)
      return SIGNAL_OF_GONE;
    return pid == 1 || pid == getppid() || session == getsid(0) ? SIGNAL_OF_OTHER : SIGNAL_OF_STEP;
  }
  enum signal_origin origin = find_origin(pid);
  for (int again = 0; origin == SIGNAL_OF_GONE && again < 2; again++)
    origin = find_origin(pid);
  return origin;
}

/* Where as many signals of the user are pending as may be, the kernel forgets who sent one, which
   then looks like one from outside. Half of that is enough: some may be gone again. All may be,
   when the sender has ended: call_filter.h has what is certain. */
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

enum signal_origin signal_origin_of(const struct signalfd_siginfo *info) {
  if (info->ssi_code == SI_KERNEL)
    return SIGNAL_OF_OTHER;
  if (info->ssi_code != SI_USER && info->ssi_code != SI_TKILL)
    return SIGNAL_OF_STEP;
  if (info->ssi_pid == 0)
    return may_be_forgotten() ? SIGNAL_OF_GONE : SIGNAL_OF_OTHER;
  return origin_of_process((pid_t)info->ssi_pid);
}
