#ifndef AGENT_SUPPLY_H
#define AGENT_SUPPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/job.h"
#include "agent/queue.h"
#include "base/error.h"

/*
 * Where steps come from: takes them ahead, finds those that were taken and are not answered, and
 * keeps what waits, in order.
 *
 *   supply_begin             before the outbox starts
 *     interrupted()          at most once, first
 *     arrived()              each step
 *     missing()              inside of it: supply_is_missing
 *     changed()              there may be a next one
 *   supply_next, supply_settled     one at a time
 *   supply_stop
 */
struct supply;

struct supply_handler {
  /* A step that an agent before this one had started; `taken` is NULL when it is not in the list
     any more; `events` is -1 when their number is not known. */
  void (*interrupted)(void *owner, const char *step_id, int64_t events, const struct taken *taken);
  /* True: it is the owner's, and does not wait. */
  bool (*arrived)(void *owner, struct queued *queued);
  /* Steps that were taken are no longer in the list: Redis has gone back to a time before, without
     anything else telling of it. */
  void (*missing)(void *owner);
  /* For a while nothing more was there to be taken. */
  void (*drained)(void *owner);
  void (*changed)(void *owner);
  void (*failed)(void *owner, const struct error *error);
};

struct supply *supply_new(const struct job *job, const struct supply_handler *handler, void *owner);
void supply_free(struct supply *self);

void supply_begin(struct supply *self);

/* See intake_prepare. */
void supply_prepare(struct supply *self);

/* Takes more, as far as there is room for them to wait. */
void supply_more(struct supply *self);

/* The oldest that waits, as far as is known; or NULL. */
const struct queued *supply_oldest(const struct supply *self);

/* Takes it out, when it is certain that it is the oldest; or NULL. It counts as taken until it is
 * settled, which frees it. */
struct queued *supply_next(struct supply *self);
void supply_settled(struct supply *self);

/* See queue_take_run. */
struct queued *supply_take_run(struct supply *self, const char *step_id);

/* Frees those that wait of which `drop` says so, the oldest first. */
void supply_drop(struct supply *self, bool (*drop)(void *owner, const struct queued *queued),
                 void *owner);

/* Calls `known` for each step that waits, the newest first, and then for the one that supply_next
   gave last, unless it is settled. */
void supply_each(const struct supply *self, void (*known)(void *owner, struct queued *queued),
                 void *owner);

/* Whether the list does not have this known step, and will not get it back either. */
bool supply_is_missing(const struct supply *self, const struct queued *queued);

/* Steps are on their way back into the list: takes no more until they are there. */
void supply_wait_for_returns(struct supply *self);

/* Takes no more. What waits stays where it is in Redis. */
void supply_stop(struct supply *self);

#endif
