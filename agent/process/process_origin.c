#include "agent/process/process_origin.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "agent/process/process_table.h"

#define ANCESTORS_MAX 65536

/* An ancestor may end meanwhile. One that exists and cannot be seen is another user's. */
static enum process_origin find_origin(pid_t pid) {
  const pid_t agent = getpid();
  for (int steps = 0; steps < ANCESTORS_MAX; steps++) {
    if (pid == agent)
      return PROCESS_OF_STEP;
    if (pid == 0)
      return PROCESS_OTHER;
    pid_t parent = process_table_parent(pid);
    if (parent < 0)
      return kill(pid, 0) != 0 && errno == EPERM ? PROCESS_OTHER : PROCESS_GONE;
    pid = parent;
  }
  return PROCESS_GONE;
}

enum process_origin process_origin_of(pid_t pid) {
  if (pid == getpid())
    return PROCESS_OTHER;
  if (!process_table_is_known()) {
    pid_t session = getsid(pid);
    if (session < 0)
      return PROCESS_GONE;
    return pid == 1 || pid == getppid() || session == getsid(0) ? PROCESS_OTHER : PROCESS_OF_STEP;
  }
  enum process_origin origin = find_origin(pid);
  for (int again = 0; origin == PROCESS_GONE && again < 2; again++)
    origin = find_origin(pid);
  return origin;
}
