#ifndef AGENT_FRONTENDS_REDIS_HEARTBEAT_HEARTBEAT_H
#define AGENT_FRONTENDS_REDIS_HEARTBEAT_HEARTBEAT_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/redis/connection/url.h"
#include "agent/frontends/redis/keys.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"

/*
 * Shows that the agent is alive: sets the key `heartbeat`, which lives for HEARTBEAT_SECONDS, every
 * HEARTBEAT_MS, over a connection of its own, so that nothing that the agent sends delays it.
 *
 *   heartbeat_command   the first SET goes with the transaction that takes the job over (outbox.h):
 *                       at no time a job has an owner and no heartbeat
 *   heartbeat_start     the job is this agent's
 *   heartbeat_end       the agent exits
 *   heartbeat_stop      nobody knows whose the key is now: it is left alone. Idempotent
 *
 * A SET is one wake-up of the process: its answer is read when the next one is due. So an idle
 * agent costs next to nothing, and committed() is given what was read HEARTBEAT_MS ago. The log has
 * one line when the key was not there for HEARTBEAT_SECONDS as far as the agent knows, and one when
 * it is there again.
 */
#define HEARTBEAT_MS 2000
#define HEARTBEAT_SECONDS 10

struct heartbeat;

struct heartbeat_handler {
  /* What the key `committed` held at a SET, or before the first one on a new connection; NULL:
     nothing. False: the job is another agent's, and the heartbeat stops. */
  bool (*committed)(void *owner, const char *value, size_t length);
  /* Adds what the value says behind the members that each has: more of them, a comma before
     each. */
  void (*describe)(void *owner, struct buffer *out);
  /* There is no connection: the owner may write this value some other way. True: the value that it
     wrote before has arrived. */
  bool (*fallback)(void *owner, const char *value, const char *seconds);
  /* Redis has not answered the SET before this one. */
  void (*silent)(void *owner);
  /* What was sent has arrived, or the connection is lost: the owner may remove the key, and nothing
     sets it again. */
  void (*ended)(void *owner);
  /* An error that does not pass: the heartbeat has stopped. */
  void (*failed)(void *owner, const struct error *error);
};

/* Everything must outlive it. `name` is for CLIENT LIST. */
struct heartbeat *heartbeat_new(struct event_base *base, const struct log *log,
                                const struct redis_url *url, const struct keys *keys,
                                const char *name, const struct heartbeat_handler *handler,
                                void *owner);
void heartbeat_free(struct heartbeat *self);

/* The encoded SET as it would be sent now, to be freed. */
char *heartbeat_command(struct heartbeat *self);

/* How often its connection was made again. */
uint64_t heartbeat_reconnections(const struct heartbeat *self);

void heartbeat_start(struct heartbeat *self);

/* What the key says from the next SET on; before, no step is in flight. */
void heartbeat_set_in_flight(struct heartbeat *self, bool step_in_flight);

/* True: it has ended, also when it was never started; false: ended() follows, within
   HEARTBEAT_END_MS. Idempotent. */
#define HEARTBEAT_END_MS 1000
bool heartbeat_end(struct heartbeat *self);

void heartbeat_stop(struct heartbeat *self);

#endif
