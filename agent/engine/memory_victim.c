#include "agent/engine/memory_victim.h"

#include <stdio.h>

#define MIB (INT64_C(1024) * 1024)

/* See the header: of the reserve. */
#define SHARE 4

static struct execution *find_largest_run(struct execution *const *executions, size_t count,
                                          int64_t *most) {
  struct execution *largest = NULL;
  for (size_t i = 0; i < count; i++) {
    int64_t own = executions[i] != NULL ? execution_memory(executions[i]) : 0;
    if (own > *most) {
      *most = own;
      largest = executions[i];
    }
  }
  return largest;
}

/* NULL if it is not the only one. */
static struct execution *find_only_run(struct execution *const *executions, size_t count) {
  struct execution *only = NULL;
  for (size_t i = 0; i < count; i++) {
    if (executions[i] != NULL && only != NULL)
      return NULL;
    if (executions[i] != NULL)
      only = executions[i];
  }
  return only != NULL && execution_memory(only) > 0 ? only : NULL;
}

struct memory_victim memory_victim_find(struct execution *const *executions, size_t count,
                                        const struct supervisors *supervisors,
                                        const struct memory_shortage *shortage,
                                        char text[MEMORY_VICTIM_TEXT_SIZE]) {
  struct memory_victim victim = {0};
  const int64_t least = shortage->reserve / SHARE;
  int64_t most;
  struct supervisor *largest_left = supervisors_largest_left(supervisors, &most);
  struct execution *largest = find_largest_run(executions, count, &most);
  struct execution *only = largest_left == NULL ? find_only_run(executions, count) : NULL;
  const char *ended = "no step has much of it";
  if (most > 0 && most >= least) {
    victim.execution = largest;
    victim.supervisor = largest == NULL ? largest_left : NULL;
    ended = largest != NULL ? "the step was killed" : "what an earlier step has left was killed";
  } else if (only != NULL && shortage->shmem_added > 0 && shortage->shmem_added >= least) {
    victim.execution = only;
    ended = "the step was killed: files in memory (tmpfs) have grown while it ran";
  }
  (void)snprintf(text, MEMORY_VICTIM_TEXT_SIZE,
                 "the container's memory was exhausted (%lld of %lld MiB); %s",
                 (long long)(shortage->used / MIB), (long long)(shortage->limit / MIB), ended);
  return victim;
}
