#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "agent/engine/execution.h"
#include "agent/process/supervisors.h"
#include "base/log.h"

/*
 * Kills a step that uses more memory or more processes than its limits allow, and the step that
 * uses the most memory before the container runs out of it. The engine makes the guard when the
 * first step arrives. The guard reads the control group's counters only while a step has processes,
 * and more often the nearer a limit is. The hard part is to know which step uses what.
 *
 * Limits of a step: what the container uses over what it used when the step began counts, but only
 * while no other step runs and no earlier one has left processes, because else the growth may be
 * theirs. It also does not count once that was so, because what the others used may remain, or may
 * be freed. Then, and if the counter cannot be read, the resident memory and the number of the
 * step's own processes count, for which their supervisor is asked.
 *
 * The container's memory: the kernel would kill any process, and if it kills the whole control
 * group (memory.oom.group, which the kubelet sets), also the agent. Memory that the kernel can
 * reclaim does not count: a full page cache is no shortage.
 *
 * The victim is the execution, or the processes that an earlier step left in the background, with
 * the most resident memory. A process that fills a memory file system has little resident memory
 * itself: if such files have grown since the only step began, and nothing else runs, that step is
 * the victim. A step that uses less than a quarter of the reserve is never killed, because another
 * program uses the memory.
 */
struct resource_guard;

/* The guard of the container's memory acts when less than `reserve` bytes of the limit are left. 0:
   never. MEMORY_RESERVE_AUTO: a sixteenth of the limit, from 16 to 64 MiB, if the kernel kills the
   whole group; else never. `executions` has ENGINE_EXECUTIONS_MAX places, NULL if free. Everything
   that is passed must outlive the guard. Logs whether the guard of the memory is active. */
#define MEMORY_RESERVE_AUTO UINT64_MAX
struct resource_guard *resource_guard_new(struct event_base *base, const struct log *log,
                                          uint64_t reserve, struct execution *const *executions,
                                          struct supervisors *supervisors);
void resource_guard_free(struct resource_guard *self);

/* Watches this execution until it is over, and the memory until no step has processes. To be called
   when the execution has its place and its process was made. */
void resource_guard_watch(struct resource_guard *self, struct execution *execution);
