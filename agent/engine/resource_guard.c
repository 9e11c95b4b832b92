#include "agent/engine/resource_guard.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/engine/engine.h"
#include "base/cgroup.h"
#include "base/check.h"
#include "base/loop.h"
#include "base/memory.h"

/* Upper bounds of how fast memory fills, in bytes per millisecond (the value is earlyoom's), and of
   how many processes a millisecond makes. */
#define FILL_RATE INT64_C(6000000)
#define FORK_RATE 20

/* The time between two looks; PAUSE_MS: after a step was killed. NEVER: nothing is watched. */
#define LOOK_MIN_MS 2
#define LOOK_MAX_MS 250
#define PAUSE_MS 250
#define NEVER INT64_MAX

/* The share of the reserve that a victim uses at least. */
#define VICTIM_SHARE 4

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)

/* An execution with limits. */
struct watch {
  struct execution *execution; /* NULL: none */
  bool is_attributable;        /* the growth of the container, because nothing else has run since */
  int64_t memory_before, tasks_before; /* of the container; -1: unknown */
};

/* What the supervisors have answered in this look. */
enum count { NOT_ASKED, WAITING, COUNTED };

struct resource_guard {
  const struct cgroup *group;
  const struct log *log;
  uint64_t reserve;
  struct execution *const *executions;
  struct supervisors *supervisors;
  struct event *look;
  struct watch watches[ENGINE_EXECUTIONS_MAX]; /* by place of the execution */
  enum count count;
  bool is_on;                /* for the container's memory */
  bool has_logged_no_victim; /* since the shortage began */
  int64_t shmem_before;      /* tmpfs and shared memory when the last execution began */
};

static int64_t between(int64_t least, int64_t number, int64_t most) {
  return number < least ? least : number > most ? most : number;
}

/* Asks the supervisors at most once per look. Returns true when they have answered. */
static bool has_counted(struct resource_guard *self) {
  if (self->count == NOT_ASKED)
    self->count = supervisors_count(self->supervisors) ? COUNTED : WAITING;
  return self->count == COUNTED;
}

/* --- the limits of a step --------------------------------------------------------------------- */

/* What an execution uses of one limit. */
struct use {
  int64_t used; /* -1: not known yet */
  int64_t limit;
  int64_t rate; /* the most by which `used` grows in a millisecond */
};

/* Returns how much the container has grown since the execution began; -1: unknown, or it need not
   be the growth of the execution. */
static int64_t growth_of(const struct watch *watch, int64_t before, int64_t now) {
  if (!watch->is_attributable || before < 0 || now < 0)
    return -1;
  return now > before ? now - before : 0;
}

static struct use use_of_memory(struct resource_guard *self, const struct watch *watch) {
  struct use use = {.limit = (int64_t)execution_limits(watch->execution)->memory_bytes,
                    .rate = FILL_RATE};
  use.used = growth_of(watch, watch->memory_before, cgroup_memory_unreclaimable(self->group));
  if (use.used < 0 && has_counted(self))
    use.used = execution_memory(watch->execution);
  return use;
}

static struct use use_of_processes(struct resource_guard *self, const struct watch *watch) {
  struct use use = {.limit = (int64_t)execution_limits(watch->execution)->processes,
                    .rate = FORK_RATE};
  use.used = growth_of(watch, watch->tasks_before, cgroup_tasks(self->group));
  if (use.used < 0 && has_counted(self))
    use.used = execution_processes(watch->execution);
  return use;
}

/* Returns when the limit may be reached. */
static int64_t next_look(const struct use *use) {
  return use->used < 0 ? LOOK_MIN_MS
                       : between(LOOK_MIN_MS, (use->limit - use->used) / use->rate, LOOK_MAX_MS);
}

static void kill_for_memory(struct watch *watch, const struct use *use) {
  const bool is_small = use->limit < 10 * MIB;
  const int64_t unit = is_small ? KIB : MIB;
  char text[128];
  (void)snprintf(text, sizeof text,
                 "the step used %lld of its %lld %s (limits.memoryBytes); it was killed",
                 (long long)((use->used + unit - 1) / unit), (long long)(use->limit / unit),
                 is_small ? "KiB" : "MiB");
  engine_stop(watch->execution, 0, STEP_CAUSE_MEMORY_LIMIT, text);
  watch->execution = NULL;
}

static void kill_for_processes(struct watch *watch, const struct use *use) {
  char text[128];
  (void)snprintf(text, sizeof text,
                 "the step had %lld of its %lld processes (limits.processes); it was killed",
                 (long long)use->used, (long long)use->limit);
  engine_stop(watch->execution, 0, STEP_CAUSE_PROCESS_LIMIT, text);
  watch->execution = NULL;
}

/* Until an execution is started, the container's figures are not its own. */
static void read_before(const struct resource_guard *self, struct watch *watch) {
  if (watch->is_attributable) {
    watch->memory_before = cgroup_memory_unreclaimable(self->group);
    watch->tasks_before = cgroup_tasks(self->group);
  }
}

/* Returns when to look again. */
static int64_t look_at_step(struct resource_guard *self, struct watch *watch) {
  const struct policy_limits *limits = execution_limits(watch->execution);
  int64_t next_ms = NEVER;
  if (!execution_was_started(watch->execution))
    read_before(self, watch);
  if (limits->processes > 0) {
    const struct use use = use_of_processes(self, watch);
    if (use.used > use.limit) {
      kill_for_processes(watch, &use);
      return NEVER;
    }
    next_ms = next_look(&use);
  }
  if (limits->memory_bytes > 0) {
    const struct use use = use_of_memory(self, watch);
    if (use.used > use.limit) {
      kill_for_memory(watch, &use);
      return NEVER;
    }
    next_ms = between(0, next_look(&use), next_ms);
  }
  return next_ms;
}

static int64_t look_at_steps(struct resource_guard *self) {
  int64_t next_ms = NEVER;
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++) {
    struct watch *watch = &self->watches[i];
    if (watch->execution != self->executions[i])
      watch->execution = NULL; /* it is over */
    if (watch->execution != NULL)
      next_ms = between(0, look_at_step(self, watch), next_ms);
  }
  return next_ms;
}

/* --- the memory of the container -------------------------------------------------------------- */

static int64_t reserve_of(const struct resource_guard *self, int64_t limit) {
  if (self->reserve != MEMORY_RESERVE_AUTO)
    return (int64_t)self->reserve;
  return cgroup_oom_kills_group(self->group) ? between(16 * MIB, limit / 16, 64 * MIB) : 0;
}

static bool is_part_of(int64_t limit, int64_t reserve) {
  return 0 < reserve && reserve < limit;
}

/* Returns the execution that uses more than `*most`, and the most; NULL if there is none. `*only`
   is the only execution; NULL if there is not exactly one. */
static struct execution *find_largest(const struct resource_guard *self, int64_t *most,
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

static bool has_grown_in_files(const struct resource_guard *self, int64_t least) {
  const int64_t shmem = cgroup_memory_shmem(self->group);
  return self->shmem_before >= 0 && shmem > self->shmem_before &&
         shmem - self->shmem_before >= least;
}

static void kill_victim(struct resource_guard *self, int64_t used, int64_t limit, int64_t reserve) {
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

static bool has_processes(const struct resource_guard *self) {
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++)
    if (self->executions[i] != NULL)
      return true;
  return supervisors_are_busy(self->supervisors);
}

/* One victim at a time: the next is killed only after the memory of the last was freed. If the
   sizes are not known yet, the next look comes soon. A file that cannot be read now, such as
   without a free descriptor, may be readable at the next look. */
static int64_t look_at_container(struct resource_guard *self) {
  if (!self->is_on || !has_processes(self))
    return NEVER;
  const int64_t limit = cgroup_memory_limit(self->group);
  const int64_t used = cgroup_memory_unreclaimable(self->group);
  const int64_t reserve = reserve_of(self, limit), left = limit - reserve - used;
  if (used < 0 || !is_part_of(limit, reserve))
    return LOOK_MAX_MS;
  if (left > 0) {
    self->has_logged_no_victim = false;
    return between(LOOK_MIN_MS, left / FILL_RATE, LOOK_MAX_MS);
  }
  if (supervisors_are_killing(self->supervisors))
    return PAUSE_MS;
  if (!has_counted(self))
    return LOOK_MIN_MS;
  kill_victim(self, used, limit, reserve);
  return PAUSE_MS;
}

/* --- the guard itself ------------------------------------------------------------------------- */

LOOP_CALLBACK(on_look, struct resource_guard *self) {
  self->count = NOT_ASKED;
  const int64_t step_ms = look_at_steps(self), container_ms = look_at_container(self);
  const int64_t next_ms = step_ms < container_ms ? step_ms : container_ms;
  if (next_ms != NEVER)
    loop_timer_start(self->look, next_ms);
}

/* The growth of the container is the step's own only if nothing else may grow or shrink. */
static void begin_watch(struct resource_guard *self, struct execution *execution) {
  const struct policy_limits *limits = execution_limits(execution);
  const bool is_limited = limits->memory_bytes > 0 || limits->processes > 0;
  bool is_alone = true;
  struct watch *own = NULL;
  for (size_t i = 0; i < ENGINE_EXECUTIONS_MAX; i++) {
    struct watch *watch = &self->watches[i];
    if (self->executions[i] == execution)
      own = watch;
    else if (self->executions[i] != NULL)
      is_alone = false;
    watch->is_attributable = false;
  }
  CHECK(own != NULL);
  own->execution = is_limited ? execution : NULL;
  if (!is_limited)
    return;
  own->is_attributable = is_alone && !supervisors_have_left(self->supervisors);
  read_before(self, own);
  loop_timer_start(self->look, LOOK_MIN_MS);
}

void resource_guard_watch(struct resource_guard *self, struct execution *execution) {
  begin_watch(self, execution);
  if (!self->is_on)
    return;
  self->shmem_before = cgroup_memory_shmem(self->group);
  if (!evtimer_pending(self->look, NULL))
    loop_timer_start(self->look, LOOK_MIN_MS);
}

struct resource_guard *resource_guard_new(struct event_base *base, const struct log *log,
                                          uint64_t reserve, struct execution *const *executions,
                                          struct supervisors *supervisors) {
  struct resource_guard *self = memory_allocate(sizeof *self);
  *self = (struct resource_guard){.group = cgroup_own(),
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

void resource_guard_free(struct resource_guard *self) {
  event_free(self->look);
  free(self);
}
