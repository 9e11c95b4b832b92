#ifndef AGENT_FRONTENDS_REDIS_HEARTBEAT_HEARTBEAT_H
#define AGENT_FRONTENDS_REDIS_HEARTBEAT_HEARTBEAT_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/redis/connection/url.h"
#include "agent/frontends/redis/heartbeat/control_messages.h"
#include "agent/frontends/redis/keys.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"

/*
 * Shows that the agent is alive: sets the key `heartbeat`, which lives for HEARTBEAT_SECONDS, every
 * HEARTBEAT_MS, over a connection of its own, so that nothing that the agent sends delays it. The
 * same connection waits for messages in the list `control` and reads them. heartbeat.c begins with
 * how.
 *
 *   heartbeat_command   the first SET goes with the transaction that takes the job over (outbox.h):
 *                       at no time a job has an owner and no heartbeat
 *   heartbeat_start     the job is this agent's
 *   heartbeat_advance   after changed(), and when control messages were removed
 *   heartbeat_stop      the agent exits, or nobody knows whose the key is now. Idempotent
 *
 * The log has one line when the key was not there for HEARTBEAT_SECONDS as far as the agent knows,
 * and one when it is there again.
 */
#define HEARTBEAT_MS 2000
#define HEARTBEAT_SECONDS 10

struct heartbeat;

struct heartbeat_handler {
  /* heartbeat_advance has something to do. */
  void (*changed)(void *owner);
  /* What the key `committed` held at a SET, or before the first one on a new connection; NULL:
     nothing. False: the job is another agent's, and the heartbeat stops. */
  bool (*committed)(void *owner, const char *value, size_t length);
  /* A control message was read, for control_messages_add. */
  void (*message)(void *owner, const struct payload *payload);
  /* Adds what the value says behind the members that each has: more of them, a comma before
     each. */
  void (*describe)(void *owner, struct buffer *out);
  /* There is no connection, or the key is gone, which this connection does not create: the owner
     may write this value with a batch. True: the value that it wrote before has arrived. */
  bool (*fallback)(void *owner, const char *value, const char *seconds);
  /* Redis does not answer in time. */
  void (*silent)(void *owner);
  /* An error that does not pass: the heartbeat has stopped. */
  void (*failed)(void *owner, const struct error *error);
};

/* Everything must outlive it. `name` is for CLIENT LIST; `control` are the messages that were
   read. */
struct heartbeat *heartbeat_new(struct event_base *base, const struct log *log,
                                const struct redis_url *url, const struct keys *keys,
                                const char *name, struct control_messages *control,
                                const struct heartbeat_handler *handler, void *owner);
void heartbeat_free(struct heartbeat *self);

/* The encoded SET as it would be sent now, to be freed. */
char *heartbeat_command(struct heartbeat *self);

/* How often its connection was made again. */
uint64_t heartbeat_reconnections(const struct heartbeat *self);

void heartbeat_start(struct heartbeat *self);
void heartbeat_advance(struct heartbeat *self);

/* What the key says from the next SET on; before, no step is in flight. */
void heartbeat_set_in_flight(struct heartbeat *self, bool step_in_flight);

void heartbeat_stop(struct heartbeat *self);

/* Redis has refused to set the key, in a way that no other attempt changes. */
bool heartbeat_is_refused(const struct heartbeat *self);

#endif
