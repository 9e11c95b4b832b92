#ifndef AGENT_DOORS_REDIS_IN_PREFETCH_H
#define AGENT_DOORS_REDIS_IN_PREFETCH_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/doors/redis/in/step_queue.h"
#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/net/url.h"
#include "agent/doors/redis/out/outbox.h"
#include "base/error.h"
#include "base/log.h"

/*
 * Where steps come from. Takes them from `in` to `inflight` ahead of time, finds those in
 * `inflight` that are not answered, and gives them out one at a time, oldest first. Answers by
 * itself what never reaches a run: a step that was cancelled while it waited, one that an earlier
 * agent had started, one whose result Redis has lost, one that Redis hands out a second time.
 *
 *   prefetch_new, prefetch_begin      before the outbox starts: the first questions go with the
 *                                     claim of the job
 *     arrived()                     a step came; the job is not idle
 *     cancel()                      ends the running step, if it is the one that is meant
 *     changed()                     prefetch_take may return a step now
 *   prefetch_take                     one step; then, for a step that is run:
 *   prefetch_started                  before outbox_flush; the run waits until that is acknowledged
 *   prefetch_release                  the step is answered (outbox_result with &step->claimed)
 *   prefetch_more                     after each delivery, and when the outbox has room again
 *   prefetch_forgotten                Redis came back without what it had acknowledged
 *   prefetch_stop
 *     changed()                       prefetch_is_stopped may be true now
 *
 * No callback comes from inside prefetch_new, _begin, _prepare, _oldest, _take, _started, _release
 * and _stop.
 */
struct prefetch;

/*
 * NEW ── prefetch_begin ──► BOOTING ── all of `inflight` is read, the interrupted step has ended ──► CERTAIN
 *
 * READY      takes ahead; the oldest step may be given out, unless others may take steps
 *   ──► SCANNING    a step may lie in `inflight` that is not known: reads all of it
 *   ──► PEEKING     prefetch_take, while others may take steps: reads up to the oldest known one
 *   ──► FETCHING    a step was cancelled that is not in memory: reads it, answers it
 *   ──► LOADING     the memory is half empty: reads the steps that were dropped, in their order
 * FETCHING, LOADING ──► READY
 * PEEKING, SCANNING, BOOTING ──► CERTAIN     until changed() returns; then READY
 * SCANNING, BOOTING ──► RETURNING            known steps are not in the list
 * each ── prefetch_forgotten ──► RETURNING   known steps are put back into the list
 * RETURNING ── they are there ──► READY, and a scan is due
 * each ── prefetch_stop ──► STOPPED          or STOPPING, when Redis lost data and `inflight` was not
 *                                            read to its end since
 * STOPPING ── nothing is to be put back any more ──► SETTLING     reads all of `inflight`: answers
 *                                            what has run, lets the rest lie
 * SETTLING ──► STOPPED
 * STOPPING, SETTLING, STOPPED ── prefetch_forgotten ──► STOPPING
 *
 * Steps are taken from READY to LOADING (a scan would see a step that is on its way here twice) and
 * given out from READY, CERTAIN, FETCHING and LOADING. One read at a time; what is read for a state
 * that was left is ignored.
 */
enum prefetch_state {
  PREFETCH_NEW,
  PREFETCH_BOOTING,
  PREFETCH_READY,
  PREFETCH_CERTAIN,
  PREFETCH_PEEKING,
  PREFETCH_FETCHING,
  PREFETCH_LOADING,
  PREFETCH_SCANNING,
  PREFETCH_RETURNING,
  PREFETCH_STOPPING,
  PREFETCH_SETTLING,
  PREFETCH_STOPPED
};

/*
 * What overtakes never waits for room: steps are taken also when the memory is full (they are
 * dropped to a record, see step_queue.h) and when the outbox is full. Taking pauses
 *  - at STEP_QUEUE_RECORDS_MAX steps that are not in memory;
 *  - at so many cancels that wait until the payload of their step is read again;
 *  - at so many bytes of payloads that were removed while the outbox was full, or of such cancels.
 */
#define PREFETCH_CANCELS_MAX 64
#define PREFETCH_OVERTAKEN_BYTES ((size_t)1024 * 1024)

struct prefetch_options {
  struct event_base *base;
  const struct log *log;
  const struct redis_url *url;
  const struct keys *keys;
  struct outbox *outbox;
  const char *job_id; /* for CLIENT LIST */
};

struct prefetch_handler {
  /* A step arrived, whatever becomes of it. */
  void (*arrived)(void *owner);
  /* A cancel, which overtakes all that waits. Ends the step that was taken and is not released when
     it has this id, and returns true; else false, and it is looked for among those that wait. The
     cancel itself is removed either way. */
  bool (*cancel)(void *owner, const char *step_id);
  /* At boot: an earlier agent had started this step, which is answered next. False: it still runs,
     and nothing is answered or given out until prefetch_interrupted_ended. */
  bool (*interrupted)(void *owner, const char *step_id);
  /* Something changed for prefetch_oldest and prefetch_take. */
  void (*changed)(void *owner);
  /* Nothing more can be claimed. */
  void (*failed)(void *owner, const struct error *error);
};

/* What a step is answered with that has run, and whose result Redis has lost. */
extern const char prefetch_lost_result[];

/* Everything in the options but job_id must outlive it. */
struct prefetch *prefetch_new(const struct prefetch_options *options,
                              const struct prefetch_handler *handler, void *owner);
void prefetch_free(struct prefetch *self);

void prefetch_begin(struct prefetch *self);

/* See interrupted(). Nothing happens after prefetch_stop. */
void prefetch_interrupted_ended(struct prefetch *self);

/* Connects ahead of time, see consumer_prepare. */
void prefetch_prepare(struct prefetch *self);

/* Goes on with what waits for the outbox: takes, reads, and ends the pause after a loss of data. To
   be called after each delivery, when the outbox has room again, and after prefetch_take; always
   last, since what it reads delays the batch that is written next. */
void prefetch_more(struct prefetch *self);

/* The oldest step that waits, as far as is known; NULL when there is none in memory. */
const struct claimed_step *prefetch_oldest(const struct prefetch *self);

/*
 * Takes out the oldest step that waits; the prefetch still owns it. NULL when there is none, when
 * it is not certain yet that it is the oldest (changed() follows), when the outbox is full, or when
 * its stepId was used before and not everything is delivered: then it is known only later whether
 * it is the same step. At most one step is taken and not released.
 */
struct claimed_step *prefetch_take(struct prefetch *self);

/* The step that was taken is to run, and is remembered. With `announced` the outbox gets that it
   was started (outbox_started); without, an agent after this one runs it again when it is not
   answered, unless prefetch_announce follows. */
void prefetch_started(struct prefetch *self, bool announced);
void prefetch_announce(struct prefetch *self);

/* The step that was taken is answered, or removed: frees it. */
void prefetch_release(struct prefetch *self);

/*
 * Redis lost data that it had acknowledged: it was restored from an older snapshot, or is empty.
 * Puts back the steps that are in memory, sees to it that a step that is handed out a second time
 * neither runs nor is answered twice, and says once more that the taken step was started. True when
 * the taken step has the id of one that was started before: if its command does not run yet it must
 * not run, and is answered with prefetch_lost_result.
 */
bool prefetch_forgotten(struct prefetch *self);

/* Logs its state, and how many steps wait. */
void prefetch_dump(const struct prefetch *self);

/* Takes no more, gives out no more. What waits stays where it is in Redis. */
void prefetch_stop(struct prefetch *self);

/* After prefetch_stop: nothing is left in `inflight` that has run and that an agent after this one
   would run again, because Redis lost data. It takes as long as Redis is away. */
bool prefetch_is_stopped(const struct prefetch *self);

#endif
