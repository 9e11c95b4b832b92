#pragma once

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
 * Shows that the agent is alive: every HEARTBEAT_MS it sets the key `heartbeat`, which expires
 * after HEARTBEAT_SECONDS. It has its own connection, so that large output does not delay it. The
 * same connection waits for messages in the list `control` and reads them. The frontend owns it.
 * heartbeat.c begins with the commands that are sent.
 *
 *   heartbeat_command   makes the first SET, which is part of the transaction that takes the job
 *                       over, so that a job with an owner always has a heartbeat
 *   heartbeat_start     this agent owns the job
 *   heartbeat_advance   after changed(), and after control messages were removed
 *   heartbeat_stop      the agent exits, or it is unknown which agent owns the key. Idempotent
 *
 * One line is logged when, as far as the agent knows, the key has been missing for
 * HEARTBEAT_SECONDS, and one when it is visible again.
 */
#define HEARTBEAT_MS 2000
#define HEARTBEAT_SECONDS 10

struct heartbeat;

struct heartbeat_handler {
  /* heartbeat_advance has something to do. */
  void (*changed)(void *owner);
  /* A control message was read; the owner passes it to control_messages_add. */
  void (*message)(void *owner, const struct payload *payload);
  /* The list was read to its end, from `began_ms` (monotonic) on, or Redis refuses to let it be
     read. `is_first`: for the first time on this connection. */
  void (*checked)(void *owner, int64_t began_ms, bool is_first);
  /* Appends more members to the JSON object that is the key's value, each with a comma before
     it. */
  void (*describe)(void *owner, struct buffer *out);
  /* A permanent error: the heartbeat has stopped. */
  void (*failed)(void *owner, const struct error *error);
};

/* All arguments except `name`, which is for CLIENT LIST, must outlive the heartbeat. The outbox
   writes the key if the heartbeat cannot, and its delivery learns each value of `committed`, which
   is read after each SET and before the first SET of a connection. `control` has the messages that
   were read. */
struct heartbeat *heartbeat_new(struct event_base *base, const struct log *log,
                                const struct redis_url *url, const struct keys *keys,
                                const char *name, struct outbox *outbox,
                                struct control_messages *control,
                                const struct heartbeat_handler *handler, void *owner);
void heartbeat_free(struct heartbeat *self);

/* Returns the encoded SET with the current value; the caller frees it. */
char *heartbeat_command(struct heartbeat *self);

/* Returns how many times the connection was ready again after a loss. */
uint64_t heartbeat_reconnections(const struct heartbeat *self);

void heartbeat_start(struct heartbeat *self);
void heartbeat_advance(struct heartbeat *self);

/* Sets StepInFlight of the next values. It is false at first. */
void heartbeat_set_in_flight(struct heartbeat *self, bool step_in_flight);

void heartbeat_stop(struct heartbeat *self);
