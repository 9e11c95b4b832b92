#ifndef AGENT_ENGINE_MEMORY_GUARD_H
#define AGENT_ENGINE_MEMORY_GUARD_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cgroup.h"

/*
 * Tells when the container's memory is nearly exhausted, before the kernel ends somebody for it: where
 * it ends the whole group (memory.oom.group, as kubelet sets it), it ends the agent, too. Looks only
 * while it is watching, and the sooner again the less is left. What the kernel can give back under
 * pressure is not counted: a full page cache is no want of memory.
 */
struct memory_guard;

/* `reserve`: how many bytes of the limit are left when it tells; MEMORY_RESERVE_AUTO: a sixteenth, at
   least 16 and at most 64 MiB, and only where the kernel ends the whole group; 0: it never tells.
   `exhausted` is called from the event loop, and again while it is so, not before
   MEMORY_GUARD_PAUSE_MS. The group must outlive the guard. */
#define MEMORY_RESERVE_AUTO UINT64_MAX
#define MEMORY_GUARD_PAUSE_MS 250
struct memory_guard *memory_guard_new(struct event_base *base, const struct cgroup *group,
                                      uint64_t reserve,
                                      void (*exhausted)(void *owner, int64_t used, int64_t limit),
                                      void *owner);
void memory_guard_free(struct memory_guard *self);

/* Whether it can tell: it is wanted, and there was a limit when it was made. */
bool memory_guard_is_on(const struct memory_guard *self);

void memory_guard_watch(struct memory_guard *self, bool watches);

#endif
