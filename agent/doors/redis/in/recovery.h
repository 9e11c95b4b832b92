#ifndef AGENT_DOORS_REDIS_IN_RECOVERY_H
#define AGENT_DOORS_REDIS_IN_RECOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/out/outbox.h"

/*
 * What lies among the steps that are taken and not answered: read at boot, and whenever a step may
 * have been taken without its having arrived here. Reads between two windows of the outbox, so that
 * what it sees and what the agent knows belong together.
 *
 *   recovery_begin    at boot, also before the outbox is ready: a step that was started comes first
 *     interrupted()   at most once
 *   recovery_scan     later
 *     step()          one for each that is in the list, oldest first, known or not; returns whether
 *                     the next one is wanted
 *     done()
 */
struct recovery_handler {
  /* A step was started and not answered. `events`: how many of its events are in the stream, -1
     when that is not known. The id is valid during the call. */
  void (*interrupted)(void *owner, const char *step_id, int64_t events);
  bool (*step)(void *owner, const struct claimed *claimed);
  void (*done)(void *owner);
};

struct recovery {
  struct outbox *outbox;
  const struct keys *keys;
  const struct recovery_handler *handler;
  void *owner;
  unsigned answers;  /* to what is asked at boot */
  char *started;     /* the step that was started; NULL for none */
  int position;      /* from the oldest, 1 */
  uint64_t *removed; /* hashes of those whose removal is on its way */
  size_t removed_count;
  bool running;
};

/* Everything must outlive the recovery. */
void recovery_init(struct recovery *self, struct outbox *outbox, const struct keys *keys,
                   const struct recovery_handler *handler, void *owner);
void recovery_release(struct recovery *self);

void recovery_begin(struct recovery *self);
void recovery_scan(struct recovery *self);

#endif
