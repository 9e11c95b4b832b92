#ifndef AGENT_ENGINE_MEMORY_GUARD_H
#define AGENT_ENGINE_MEMORY_GUARD_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cgroup.h"

/*
 * Tells when the container's memory is nearly exhausted, before the kernel ends somebody for it:
 * where it ends the whole group (memory.oom.group, as kubelet sets it), it ends the agent, too.
 * Looks only while it is needed, and the sooner again the less is left. What the kernel can give
 * back under pressure is not counted: a full page cache is no want of memory.
 */
struct memory_guard;

/* In bytes. */
struct memory_shortage {
  int64_t used, limit, reserve;
  int64_t shmem_added; /* tmpfs and shared memory: growth since the last memory_guard_watch */
};

/* Called from the event loop. */
struct memory_guard_handler {
  /* Asked before each look: the guard stops when there is nobody who could be ended. */
  bool (*is_needed)(void *owner);
  /* Less than the reserve is left. Returns false if it has to be called again at the next look,
     which is soon. Otherwise it is called again while it is so, not before
     MEMORY_GUARD_PAUSE_MS. */
  bool (*exhausted)(void *owner, const struct memory_shortage *shortage);
  /* More is left again, after it was less. */
  void (*relieved)(void *owner);
};

/* `reserve`: how many bytes of the limit are left when it tells; MEMORY_RESERVE_AUTO: a sixteenth,
   at least 16 and at most 64 MiB, and only where the kernel ends the whole group; 0: it never
   tells. The group and the handler must outlive the guard. */
#define MEMORY_RESERVE_AUTO UINT64_MAX
#define MEMORY_GUARD_PAUSE_MS 250
struct memory_guard *memory_guard_new(struct event_base *base, const struct cgroup *group,
                                      uint64_t reserve, const struct memory_guard_handler *handler,
                                      void *owner);
void memory_guard_free(struct memory_guard *self);

/* Whether it can tell: there was a limit when it was made, and the reserve was a part of it. */
bool memory_guard_is_on(const struct memory_guard *self);

/* A step begins: looks from now on, until it is not needed. */
void memory_guard_watch(struct memory_guard *self);

#endif
