#ifndef AGENT_DOORS_REDIS_IN_PREFETCH_H
#define AGENT_DOORS_REDIS_IN_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/doors/redis/in/step_queue.h"
#include "agent/job.h"
#include "base/error.h"

/*
 * Where steps come from: takes them ahead, finds those that were taken and are not answered, and
 * keeps what waits, in order.
 *
 *   prefetch_begin             before the outbox starts
 *     interrupted()          at most once, first
 *     arrived()              each step
 *     missing()              inside of it: prefetch_is_missing
 *     changed()              there may be a next one
 *   prefetch_next, prefetch_settled     one at a time
 *   prefetch_stop
 */
struct prefetch;

struct prefetch_handler {
  /* A step that an agent before this one had started; `claimed` is NULL when it is not in the list
     any more; `events` is -1 when their number is not known. */
  void (*interrupted)(void *owner, const char *step_id, int64_t events,
                      const struct claimed *claimed);
  /* True: it is the owner's, and does not wait. */
  bool (*arrived)(void *owner, struct claimed_step *queued);
  /* Steps that were taken are no longer in the list: Redis has gone back to a time before, without
     anything else telling of it. */
  void (*missing)(void *owner);
  /* For a while nothing more was there to be claimed. */
  void (*drained)(void *owner);
  void (*changed)(void *owner);
  void (*failed)(void *owner, const struct error *error);
};

struct prefetch *prefetch_new(const struct job *job, const struct prefetch_handler *handler,
                              void *owner);
void prefetch_free(struct prefetch *self);

void prefetch_begin(struct prefetch *self);

/* See consumer_prepare. */
void prefetch_prepare(struct prefetch *self);

/* Takes more, as far as there is room for them to wait. */
void prefetch_more(struct prefetch *self);

/* The oldest that waits, as far as is known; or NULL. */
const struct claimed_step *prefetch_oldest(const struct prefetch *self);

/* Takes it out, when it is certain that it is the oldest; or NULL. It counts as taken until it is
 * settled, which frees it. */
struct claimed_step *prefetch_next(struct prefetch *self);
void prefetch_settled(struct prefetch *self);

/* See step_queue_take_run. */
struct claimed_step *prefetch_take_run(struct prefetch *self, const char *step_id);

/* Frees those that wait of which `drop` says so, the oldest first. */
void prefetch_drop(struct prefetch *self,
                   bool (*drop)(void *owner, const struct claimed_step *queued), void *owner);

/* Calls `known` for each step that waits, the newest first, and then for the one that prefetch_next
   gave last, unless it is settled. */
void prefetch_each(const struct prefetch *self,
                   void (*known)(void *owner, struct claimed_step *queued), void *owner);

/* Whether the list does not have this known step, and will not get it back either. */
bool prefetch_is_missing(const struct prefetch *self, const struct claimed_step *queued);

/* Steps are on their way back into the list: takes no more until they are there. */
void prefetch_wait_for_returns(struct prefetch *self);

/* Takes no more. What waits stays where it is in Redis. */
void prefetch_stop(struct prefetch *self);

#endif
