#include "agent/engine/memory_guard.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/engine/engine.h"
#include "base/cgroup.h"
#include "base/loop.h"
#include "base/memory.h"

/* An upper bound of how fast memory fills, in bytes per millisecond; the value is earlyoom's. */
#define FILL_RATE INT64_C(6000000)

/* The time between two looks; PAUSE_MS: after a step was killed. */
#define LOOK_MIN_MS 2
#define LOOK_MAX_MS 250
#define PAUSE_MS 250

/* The share of the reserve that a victim uses at least. */
#define VICTIM_SHARE 4

#define MIB (INT64_C(1024) * 1024)

struct memory_guard {
  const struct cgroup *group;
  const struct log *log;
  uint64_t reserve;
  struct execution *const *executions;
  struct supervisors *supervisors;
  struct event *look;
  bool is_on;
  bool has_logged_no_victim; /* since the shortage began */
  int64_t shmem_before;      /* tmpfs and shared memory at the last memory_guard_watch */
};

static int64_t between(int64_t least, int64_t number, int64_t most) {
  return number < least ? least : number > most ? most : number;
}

static int64_t reserve_of(const struct memory_guard *self, int64_t limit) {
  if (self->reserve != MEMORY_RESERVE_AUTO)
    return (int64_t)self->reserve;
  return cgroup_oom_kills_group(self->group) ? between(16 * MIB, limit / 16, 64 * MIB) : 0;
}

static bool is_part_of(int64_t limit, int64_t reserve) {
  return 0 < reserve && reserve < limit;
}

/* Returns the execution that uses more than `*most`, and the most; NULL if there is none. `*only`
   is the only execution; NULL if there is not exactly one. */
static struct execution *find_largest(const struct memory_guard *self, int64_t *most,
                                      struct execution **only) {
  struct execution *largest = NULL;
  size_t count = 0;
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++) {
    struct execution *execution = self->executions[i];
    int64_t bytes = execution != NULL ? execution_memory(execution) : 0;
    if (execution != NULL)
      *only = ++count == 1 ? execution : NULL;
    if (bytes > *most) {
      *most = bytes;
      largest = execution;
    }
  }
  return largest;
}

static bool has_grown_in_files(const struct memory_guard *self, int64_t least) {
  const int64_t shmem = cgroup_memory_shmem(self->group);
  return self->shmem_before >= 0 && shmem > self->shmem_before &&
         shmem - self->shmem_before >= least;
}

static void kill_victim(struct memory_guard *self, int64_t used, int64_t limit, int64_t reserve) {
  const int64_t least = reserve / VICTIM_SHARE;
  int64_t most;
  struct execution *only = NULL;
  struct supervisor *background = supervisors_largest_left(self->supervisors, &most);
  const bool has_background = background != NULL;
  struct execution *victim = find_largest(self, &most, &only);
  const char *outcome = "no step uses enough of it to be killed";
  if (most > 0 && most >= least) {
    outcome = victim != NULL ? "the step was killed"
                             : "the processes that an earlier step left were killed";
    if (victim != NULL)
      background = NULL;
  } else if (!has_background && only != NULL && execution_memory(only) > 0 &&
             has_grown_in_files(self, least)) {
    victim = only;
    outcome = "the step was killed: files in memory (tmpfs) have grown while it ran";
  } else {
    victim = NULL;
    background = NULL;
  }
  char text[224];
  (void)snprintf(text, sizeof text, "the container's memory was exhausted (%lld of %lld MiB); %s",
                 (long long)(used / MIB), (long long)(limit / MIB), outcome);
  const bool has_victim = victim != NULL || background != NULL;
  if (victim != NULL)
    engine_stop(victim, 0, STEP_CAUSE_MEMORY_LIMIT, text);
  else if (has_victim || !self->has_logged_no_victim)
    log_line(self->log, LOG_WARN, NULL, "%s", text);
  self->has_logged_no_victim |= !has_victim;
  if (background != NULL)
    supervisor_kill(background);
}

static bool has_processes(const struct memory_guard *self) {
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++)
    if (self->executions[i] != NULL)
      return true;
  return supervisors_are_busy(self->supervisors);
}

/* One victim at a time: the next is killed only after the memory of the last was freed. If the
   sizes are not known yet, the next look comes soon. A file that cannot be read now, such as
   without a free descriptor, may be readable at the next look. */
LOOP_CALLBACK(on_look, struct memory_guard *self) {
  if (!has_processes(self))
    return;
  const int64_t limit = cgroup_memory_limit(self->group);
  const int64_t used = cgroup_memory_unreclaimable(self->group);
  const int64_t reserve = reserve_of(self, limit), left = limit - reserve - used;
  int64_t next_ms = LOOK_MAX_MS;
  if (used >= 0 && is_part_of(limit, reserve)) {
    next_ms = left > 0 ? between(LOOK_MIN_MS, left / FILL_RATE, LOOK_MAX_MS) : PAUSE_MS;
    if (left > 0)
      self->has_logged_no_victim = false;
    else if (supervisors_are_killing(self->supervisors))
      next_ms = PAUSE_MS;
    else if (!supervisors_count(self->supervisors))
      next_ms = LOOK_MIN_MS;
    else
      kill_victim(self, used, limit, reserve);
  }
  loop_timer_start(self->look, next_ms);
}

void memory_guard_watch(struct memory_guard *self) {
  if (!self->is_on)
    return;
  self->shmem_before = cgroup_memory_shmem(self->group);
  if (!evtimer_pending(self->look, NULL))
    loop_timer_start(self->look, LOOK_MIN_MS);
}

struct memory_guard *memory_guard_new(struct event_base *base, const struct log *log,
                                      uint64_t reserve, struct execution *const *executions,
                                      struct supervisors *supervisors) {
  struct memory_guard *self = memory_allocate(sizeof *self);
  *self = (struct memory_guard){.group = cgroup_own(),
                                .log = log,
                                .reserve = reserve,
                                .executions = executions,
                                .supervisors = supervisors};
  self->look = loop_timer_new(base, on_look, self);
  const int64_t limit = cgroup_memory_limit(self->group);
  self->is_on = is_part_of(limit, reserve_of(self, limit));
  if (self->is_on && reserve == MEMORY_RESERVE_AUTO)
    log_line(log, LOG_INFO, NULL,
             "the kernel would kill the agent together with a step that exhausts the memory: the "
             "agent kills the step first");
  else if (!self->is_on && reserve != MEMORY_RESERVE_AUTO && reserve > 0)
    log_line(log, LOG_WARN, NULL,
             "--memory-reserve has no effect: the container has no readable memory limit above it");
  return self;
}

void memory_guard_free(struct memory_guard *self) {
  event_free(self->look);
  free(self);
}
