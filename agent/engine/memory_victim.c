#include "agent/engine/memory_victim.h"

#include <stdio.h>

#define MIB (INT64_C(1024) * 1024)

/* See the header: of the reserve. */
#define SHARE 4

static struct run *find_largest_run(struct run *const *runs, size_t count, int64_t *most) {
  struct run *largest = NULL;
  for (size_t i = 0; i < count; i++) {
    int64_t own = runs[i] != NULL ? run_memory(runs[i]) : 0;
    if (own > *most) {
      *most = own;
      largest = runs[i];
    }
  }
  return largest;
}

/* NULL if it is not the only one. */
static struct run *find_only_run(struct run *const *runs, size_t count) {
  struct run *only = NULL;
  for (size_t i = 0; i < count; i++) {
    if (runs[i] != NULL && only != NULL)
      return NULL;
    if (runs[i] != NULL)
      only = runs[i];
  }
  return only != NULL && run_memory(only) > 0 ? only : NULL;
}

struct memory_victim memory_victim_find(struct run *const *runs, size_t count,
                                        const struct keepers *keepers,
                                        const struct memory_shortage *shortage,
                                        char text[MEMORY_VICTIM_TEXT_SIZE]) {
  struct memory_victim victim = {0};
  const int64_t least = shortage->reserve / SHARE;
  int64_t most;
  struct keeper *largest_left = keepers_largest_left(keepers, &most);
  struct run *largest = find_largest_run(runs, count, &most);
  struct run *only = largest_left == NULL ? find_only_run(runs, count) : NULL;
  const char *ended = "no step has much of it";
  if (most > 0 && most >= least) {
    victim.run = largest;
    victim.keeper = largest == NULL ? largest_left : NULL;
    ended = largest != NULL ? "the step was killed" : "what an earlier step has left was killed";
  } else if (only != NULL && shortage->shmem_added > 0 && shortage->shmem_added >= least) {
    victim.run = only;
    ended = "the step was killed: files in memory (tmpfs) have grown while it ran";
  }
  (void)snprintf(text, MEMORY_VICTIM_TEXT_SIZE,
                 "the container's memory was exhausted (%lld of %lld MiB); %s",
                 (long long)(shortage->used / MIB), (long long)(shortage->limit / MIB), ended);
  return victim;
}
