#include "agent/process/oom_score.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/process/process_table.h"

#define SCORE "1000"

/* How many processes a command may have started before it is raised, a few milliseconds later. */
#define PROCESSES_MAX 256

static void write_score(const char *path) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  (void)!write(fd, SCORE, sizeof SCORE - 1);
  close(fd);
}

/* Adds its children; returns the new count. */
static size_t add_children(pid_t pid, pid_t *pids, size_t count) {
  char name[64], list[1024];
  (void)snprintf(name, sizeof name, "task/%d/children", (int)pid);
  if (process_table_read_file(pid, name, list, sizeof list) <= 0)
    return count;
  for (char *at = list, *end; count < PROCESSES_MAX; at = end) {
    long child = strtol(at, &end, 10);
    if (end == at || *end != ' ') /* none, or cut */
      break;
    pids[count++] = (pid_t)child;
  }
  return count;
}

/* Each before its children are listed: those that it starts from then on inherit the score. */
void oom_score_raise(pid_t child) {
  pid_t pids[PROCESSES_MAX] = {child};
  size_t count = 1;
  if (!process_table_is_known())
    return;
  for (size_t i = 0; i < count; i++) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)pids[i]);
    write_score(path);
    count = add_children(pids[i], pids, count);
  }
}

void oom_score_raise_own(void) {
  write_score("/proc/self/oom_score_adj");
}
