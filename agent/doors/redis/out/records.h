#ifndef AGENT_DOORS_REDIS_OUT_RECORDS_H
#define AGENT_DOORS_REDIS_OUT_RECORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/net/command.h"
#include "agent/doors/redis/out/send_queue.h"
#include "base/buffer.h"
#include "wire/step_event.h"
#include "wire/step_result.h"

/*
 * What the agent has to say, as commands in the hold. What one call writes is one piece: it arrives
 * as a whole or not at all.
 */
struct records {
  struct send_queue *send_queue;
  const struct keys *keys;
  struct command_head event;  /* the XADD */
  struct command_head result; /* the LPUSH */
  char ttl[24];               /* seconds; empty: keys do not expire */
  struct buffer deferred;     /* events that are kept back, encoded */
  size_t deferred_commands;
};

/* One step as it lies in the list of the steps that are taken. */
struct claimed {
  const char *payload;
  size_t length;
  bool truncated; /* only its beginning is known; it is removed when it is the oldest */
};

/* Hold and keys must outlive the records. `events_maxlen` 0: the stream is not trimmed. */
void records_init(struct records *self, struct send_queue *send_queue, const struct keys *keys,
                  unsigned long long events_maxlen, unsigned long long key_ttl_seconds);
void records_release(struct records *self);

void records_event(struct records *self, const struct step_event *event);

/* Keeps the event back until the next records_result with a last event, which writes it into the
   same piece, or until records_put_deferred, which makes a piece of all that is kept back. Returns
   the bytes so kept. */
size_t records_defer_event(struct records *self, const struct step_event *event);
void records_put_deferred(struct records *self);

/* From now on this step has been started, until its result; NULL: none is. */
void records_started(struct records *self, const char *step_id);

/*
 * The answer, with the step's last event (NULL: it had none): it removes the step (`claimed`; NULL:
 * it is not in the list) from those that are taken, and, when it was `started`, from having been
 * so.
 */
void records_result(struct records *self, const struct step_event *completed,
                    const struct step_result *result, const struct claimed *claimed, bool started);

/* Removes a step without an answer. */
void records_removal(struct records *self, const struct claimed *claimed);

/* Removes the newest of the steps that are alike, which was taken once more; not a truncated one.
 */
void records_removal_of_copy(struct records *self, const struct claimed *claimed);

/* Puts a step back among those that are taken, as the oldest. */
void records_return(struct records *self, const struct claimed *claimed);

/* Lets all keys of the job live on for their time; without one they stay, also those that an
   earlier agent gave a time. */
void records_refresh(struct records *self);

/* The agent is there: what the heartbeat says where it has no connection. */
void records_beat(struct records *self, const char *value, const char *seconds);

/* Removes the heartbeat's key: the agent is not there any more. */
void records_remove_heartbeat(struct records *self);

/* How many of such a step (there may be several that are alike) what is held removes. */
size_t records_removals(const struct records *self, const struct claimed *claimed);

/* Whether such a step is put back by what is held. */
bool records_returns(const struct records *self, const struct claimed *claimed);

/* Calls `result` with the JSON of each result that is held, oldest first. */
void records_each_result(const struct records *self,
                         void (*result)(void *owner, const char *json, size_t length), void *owner);

#endif
