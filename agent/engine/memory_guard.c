#include "agent/engine/memory_guard.h"

#include <stdlib.h>

#include "base/loop.h"
#include "base/memory.h"

/* Faster than memory can be filled, in bytes a millisecond: as earlyoom has it. */
#define FILLED_A_MS INT64_C(6000000)

/* From one look to the next. */
#define LOOK_MIN_MS 2
#define LOOK_MAX_MS 250

#define MIB (INT64_C(1024) * 1024)

struct memory_guard {
  const struct cgroup *group;
  uint64_t reserve;
  const struct memory_guard_handler *handler;
  void *owner;
  struct event *look;
  bool is_on;
  bool is_short;        /* of memory, at the last look */
  int64_t shmem_before; /* at the last memory_guard_watch */
};

static int64_t between(int64_t least, int64_t number, int64_t most) {
  return number < least ? least : number > most ? most : number;
}

static int64_t reserve_of(const struct memory_guard *self, int64_t limit) {
  if (self->reserve != MEMORY_RESERVE_AUTO)
    return (int64_t)self->reserve;
  return cgroup_oom_kills_group(self->group) ? between(16 * MIB, limit / 16, 64 * MIB) : 0;
}

bool memory_guard_is_on(const struct memory_guard *self) {
  return self->is_on;
}

static bool is_part_of(int64_t limit, int64_t reserve) {
  return 0 < reserve && reserve < limit;
}

static bool tell_exhausted(const struct memory_guard *self, int64_t used, int64_t limit,
                           int64_t reserve) {
  const int64_t shmem = cgroup_memory_shmem(self->group);
  const bool is_known = shmem >= 0 && self->shmem_before >= 0;
  return self->handler->exhausted(
      self->owner,
      &(struct memory_shortage){.used = used,
                                .limit = limit,
                                .reserve = reserve,
                                .shmem_added = is_known ? shmem - self->shmem_before : 0});
}

/* A file that cannot be read now, as without a free descriptor, may be read at the next look. */
LOOP_CALLBACK(on_look, struct memory_guard *self) {
  if (!self->handler->is_needed(self->owner))
    return;
  int64_t limit = cgroup_memory_limit(self->group);
  int64_t used = cgroup_memory_unreclaimable(self->group);
  int64_t reserve = reserve_of(self, limit), left = limit - reserve - used;
  if (used < 0 || !is_part_of(limit, reserve)) {
    loop_timer_start(self->look, LOOK_MAX_MS);
    return;
  }
  bool was_short = self->is_short;
  self->is_short = left <= 0;
  loop_timer_start(self->look, left > 0 ? between(LOOK_MIN_MS, left / FILLED_A_MS, LOOK_MAX_MS)
                                        : MEMORY_GUARD_PAUSE_MS);
  if (self->is_short && !tell_exhausted(self, used, limit, reserve))
    loop_timer_start(self->look, LOOK_MIN_MS);
  else if (was_short && !self->is_short)
    self->handler->relieved(self->owner);
}

void memory_guard_watch(struct memory_guard *self) {
  if (self->is_on)
    self->shmem_before = cgroup_memory_shmem(self->group);
  if (self->is_on && !evtimer_pending(self->look, NULL))
    loop_timer_start(self->look, LOOK_MIN_MS);
}

struct memory_guard *memory_guard_new(struct event_base *base, const struct cgroup *group,
                                      uint64_t reserve, const struct memory_guard_handler *handler,
                                      void *owner) {
  struct memory_guard *self = memory_allocate(sizeof *self);
  *self =
      (struct memory_guard){.group = group, .reserve = reserve, .handler = handler, .owner = owner};
  self->look = loop_timer_new(base, on_look, self);
  int64_t limit = cgroup_memory_limit(group);
  self->is_on = is_part_of(limit, reserve_of(self, limit));
  return self;
}

void memory_guard_free(struct memory_guard *self) {
  event_free(self->look);
  free(self);
}
