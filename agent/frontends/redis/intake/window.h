#ifndef AGENT_FRONTENDS_REDIS_INTAKE_WINDOW_H
#define AGENT_FRONTENDS_REDIS_INTAKE_WINDOW_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/frontends/redis/connection/url.h"
#include "agent/frontends/redis/delivery/outbox.h"
#include "agent/frontends/redis/intake/ledger.h"
#include "agent/frontends/redis/keys.h"
#include "base/error.h"
#include "base/log.h"

/*
 * The window on `inflight`: its oldest steps are in memory, the others lie in Redis alone. Takes
 * steps from `in` to `inflight` ahead of time, finds those in `inflight` that are not answered, and
 * gives them out one at a time, oldest first. Answers by itself what never reaches a run: a step
 * that was cancelled while it waited, one that an earlier agent had started, one whose result Redis
 * has lost, one that Redis hands out a second time.
 *
 *   window_new                      before the outbox starts: the first questions go with the claim
 *                                   of the job
 *   window_take                     one step; then at once window_answer, window_remove, or for a
 *                                   step that is run:
 *   window_begin                    before outbox_flush; the run waits until that is acknowledged
 *   window_answer                   its result
 *   window_more                     after each delivery, and when the outbox has room again
 *   window_forgotten                Redis came back without what it had acknowledged
 *   window_stop
 *
 * No callback comes from inside these functions, except for window_more and
 * window_interrupted_ended, and of answered().
 */
struct window;

/*
 * window_new ──► READING, for BOOT               all of `inflight`
 *
 * READY      takes ahead; the oldest step may be given out, unless others may take steps
 *   ──► READING, for
 *         ALL       a step may lie in `inflight` that is not known: all of it
 *         OLDEST    window_take, while others may take steps: up to the oldest known one
 *         BEHIND    the memory is half empty, or a step was cancelled that is not in memory: from the
 *                   end of the window on
 * READING ──► READY
 * READING, for ALL or BOOT ──► RETURNING         known steps are not in the list
 * each ── window_forgotten ──► RETURNING         known steps are put back into the list
 * RETURNING ── they are there ──► READY, and a read of ALL is due
 * each ── window_stop ──► STOPPED                or STOPPING, when Redis lost data and `inflight` was
 *                                                not read to its end since
 * STOPPING ── nothing is to be put back any more ──► READING, for LAST
 *                                                all of `inflight`: answers what has run, lets the
 *                                                rest lie
 * READING, for LAST ──► STOPPED
 * STOPPING, STOPPED, READING for LAST ── window_forgotten ──► STOPPING
 *
 * Steps are taken, unless a read of ALL is due, in READY and in READING for OLDEST and BEHIND (the
 * other reads would meet a step that is on its way here, which would be known twice); they are
 * given out in READY and in READING for BEHIND. One read at a time; what is read for a state that
 * was left is ignored.
 */
enum window_state {
  WINDOW_READY,
  WINDOW_READING,
  WINDOW_RETURNING,
  WINDOW_STOPPING,
  WINDOW_STOPPED
};

enum window_reading { READ_BOOT, READ_ALL, READ_OLDEST, READ_BEHIND, READ_LAST };

/* Steps in memory, from which on a step is left to Redis; so it is when they hold as many bytes,
   payload and step, as payload_limit(). The last one in memory may be of any size. */
#define WINDOW_STEPS 64

/* What overtakes never waits for room: steps are taken also when the memory and the outbox are
   full. Taking pauses at so many steps that are not in memory, which bounds the time that a read of
   all takes; at so many cancels whose step is looked for; and at so many bytes of payloads that
   were removed while the outbox was full, or of such cancels. */
#define WINDOW_BEHIND_MAX 65536
#define WINDOW_ORDERS_MAX 64
#define WINDOW_OVERTAKEN_BYTES ((size_t)1024 * 1024)

struct window_handler {
  /* A step arrived, whatever becomes of it: the job is not idle. */
  void (*arrived)(void *owner);
  /* A cancel, which overtakes all that waits. Ends the step that was begun and is not answered when
     it has this id, and returns true; else false, and it is looked for among those that wait. The
     cancel itself is removed either way. */
  bool (*cancel)(void *owner, const char *step_id);
  /* At boot: an earlier agent had started a step, which is answered next. False: it still runs,
     and nothing is answered or given out until window_interrupted_ended. */
  bool (*interrupted)(void *owner);
  /* window_take may return a step now; after window_stop, window_is_stopped may be true. */
  void (*changed)(void *owner);
  /* A step is answered, by whomever. */
  void (*answered)(void *owner, const struct step_result *result);
  /* Nothing more can be claimed. */
  void (*failed)(void *owner, const struct error *error);
};

/* What a step is answered with that has run, and whose result Redis has lost. */
extern const char window_lost_result[];

/* Everything must outlive it. */
struct window *window_new(struct event_base *base, const struct log *log,
                          const struct redis_url *url, const struct keys *keys,
                          struct outbox *outbox, const struct window_handler *handler, void *owner);
void window_free(struct window *self);

/* See interrupted(). Nothing happens after window_stop. */
void window_interrupted_ended(struct window *self);

/* See consumer_prepare. */
void window_prepare(struct window *self);

/* Goes on with what waits for the outbox: takes, reads, and ends the pause after a loss of data. To
   be called after window_take, too. */
void window_more(struct window *self);

/* The oldest step that waits; the window owns it. NULL when there is none, when one was begun and
   is not answered, when it is not certain yet that it is the oldest (changed() follows), when the
   outbox is full, or when its stepId was used before and not everything is delivered: then it is
   known only later whether it is the same step. */
struct claimed_step *window_take(struct window *self);

/* The step is to run, and is remembered. With `announced` the outbox gets that it was started
   (outbox_started); without, an agent after this one runs it again when it is not answered, unless
   window_announce follows. */
void window_begin(struct window *self, struct claimed_step *step, bool announced);
void window_announce(struct window *self);

/* The step is answered, see outbox_result; or removed without a result. */
void window_answer(struct window *self, struct claimed_step *step,
                   const struct step_event *completed, const struct step_result *result);
void window_remove(struct window *self, struct claimed_step *step);

/* Logs the JSON of each result that is not delivered. */
void window_log_undelivered(struct window *self, const struct log *log);

/*
 * Redis lost data that it had acknowledged: it was restored from an older snapshot, or is empty.
 * What is in memory is put back as the oldest of `inflight`, in order; when Redis hands out a copy
 * of it, the copy is removed. A step that is handed out a second time neither runs nor is answered
 * twice. That the begun step was started is said once more. What lay in Redis alone is in the
 * restored lists, and is found there as if it were new; or it is lost with Redis, like a step that
 * still lay in `in`. True when the begun step has the id of one that was started before: if its
 * command does not run yet it must not run, and is answered with window_lost_result.
 */
bool window_forgotten(struct window *self);

/* Takes no more, gives out no more. What waits stays where it is in Redis. */
void window_stop(struct window *self);

/* After window_stop: nothing is left in `inflight` that has run and that an agent after this one
   would run again, because Redis lost data. It takes as long as Redis is away. */
bool window_is_stopped(const struct window *self);

/* Logs its state, and how many steps wait. */
void window_dump(const struct window *self);

/* How often its connection was made again. */
uint64_t window_reconnections(const struct window *self);

#endif
