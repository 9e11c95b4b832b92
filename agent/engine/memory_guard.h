#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "agent/engine/execution.h"
#include "agent/process/supervisors.h"
#include "base/log.h"

/*
 * Kills the step that uses the most memory before the container runs out of it. The kernel would
 * kill any process, and if it kills the whole control group (memory.oom.group, which the kubelet
 * sets), also the agent. The engine makes the guard when the first step arrives. The guard reads
 * the group's counters only while a step has processes, and more often the less memory is left.
 * Memory that the kernel can reclaim does not count: a full page cache is no shortage.
 *
 * The victim is the execution, or the processes that an earlier step left in the background, with
 * the most resident memory. A process that fills a memory file system has little resident memory
 * itself: if such files have grown since the only step began, and nothing else runs, that step is
 * the victim. A step that uses less than a quarter of the reserve is never killed, because another
 * program uses the memory.
 */
struct memory_guard;

/* The guard acts when less than `reserve` bytes of the limit are left. 0: never.
   MEMORY_RESERVE_AUTO: a sixteenth of the limit, from 16 to 64 MiB, if the kernel kills the whole
   group; else never. `executions` has ENGINE_EXECUTIONS_MAX places, NULL if free. Everything that
   is passed must outlive the guard. Logs whether the guard is active. */
#define MEMORY_RESERVE_AUTO UINT64_MAX
struct memory_guard *memory_guard_new(struct event_base *base, const struct log *log,
                                      uint64_t reserve, struct execution *const *executions,
                                      struct supervisors *supervisors);
void memory_guard_free(struct memory_guard *self);

/* Watches the memory until no step has processes. To be called when a step begins. */
void memory_guard_watch(struct memory_guard *self);
