#ifndef AGENT_ENGINE_MEMORY_VICTIM_H
#define AGENT_ENGINE_MEMORY_VICTIM_H

#include <stddef.h>

#include "agent/engine/execution.h"
#include "agent/engine/memory_guard.h"
#include "agent/process/supervisors.h"

/*
 * Chooses what the engine ends when the container's memory is exhausted: the step, or what an
 * earlier step has left, whose processes have the most. A process that has written to a memory file
 * system has little itself, so that a step is also chosen if nothing else of the agent runs, and
 * files in memory have grown since it began. A step that has less than a quarter of the
 * reserve is never chosen: the memory is somebody else's.
 */
struct memory_victim {
  struct execution *execution; /* NULL: none */
  struct supervisor
      *supervisor; /* if there is no run: of what an earlier step has left; NULL: none */
};

/* `runs` has NULL in free places. Writes what is exhausted, and what is ended, into `text`. */
#define MEMORY_VICTIM_TEXT_SIZE 224
struct memory_victim memory_victim_find(struct execution *const *executions, size_t count,
                                        const struct supervisors *supervisors,
                                        const struct memory_shortage *shortage,
                                        char text[MEMORY_VICTIM_TEXT_SIZE]);

#endif
