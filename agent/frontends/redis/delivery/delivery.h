#pragma once

#include <event2/event.h>
#include <stdbool.h>

#include "agent/frontends/redis/connection/reply_parser.h"
#include "agent/frontends/redis/delivery/send_queue.h"
#include "agent/frontends/redis/keys.h"
#include "base/error.h"
#include "base/log.h"

/*
 * Writes the send queue to Redis: each command exactly once and in order, across any number of lost
 * connections, until another agent takes the job over. The outbox fills the send queue, and the
 * frontend owns the delivery. delivery.c begins with the algorithm.
 *
 * A delivery records what arrives from Redis and calls changed(). The owner takes the notifications
 * in its next turn, decides, and calls delivery_flush, the only function that sends a request.
 */
struct delivery;

/* The frontend's options about delivery. The url must outlive the delivery. */
struct delivery_options {
  const struct redis_url *url;
  unsigned long long key_ttl_seconds;   /* 0: keys do not expire */
  unsigned long long events_maxlen;     /* 0: the stream is not trimmed */
  unsigned long long events_keep_bytes; /* more young events are kept up to this; see retention.h */
  unsigned long long hold_bytes;        /* output that may wait for an acknowledgement */
};

enum delivery_notification {
  DELIVERY_CONNECTED = 1,    /* the handshake has succeeded */
  DELIVERY_OWNED = 2,        /* once: this agent owns the job */
  DELIVERY_DELIVERED = 4,    /* a batch was executed, and has left the send queue */
  DELIVERY_LOST_DATA = 8,    /* Redis has lost acknowledged data; once until the next delivery */
  DELIVERY_UNREACHABLE = 16, /* the connection was lost, and an attempt to reconnect has failed */
  DELIVERY_FAILED = 32       /* a permanent error: nothing more is sent */
};

/* What depends on the version of Redis and on the rights of its user. */
enum delivery_feature { DELIVERY_REPLY_TO = 1, DELIVERY_FLOW_CONTROL = 2 };

struct delivery_handler {
  /* There is a notification, or delivery_flush has something to do. */
  void (*changed)(void *owner);
  /* Returns one encoded command for the ownership transaction, which the delivery frees. May be
     NULL. */
  char *(*ownership_command)(void *owner);
};

/* Everything must outlive the delivery. */
struct delivery *delivery_new(struct event_base *base, const struct log *log,
                              const struct delivery_options *options, const struct keys *keys,
                              struct send_queue *send_queue, const struct delivery_handler *handler,
                              void *owner);
void delivery_free(struct delivery *self);

void delivery_start(struct delivery *self);

/* Returns the notifications since the last call, values of enum delivery_notification. */
unsigned delivery_take_notifications(struct delivery *self);

/* Returns the error of DELIVERY_FAILED, or NULL if the delivery has not failed. */
const struct error *delivery_error(const struct delivery *self);

/* Returns whether Redis permits the commands that the feature needs, as of the last handshake. */
bool delivery_offers(const struct delivery *self, enum delivery_feature feature);

/* Sends the next request, unless one is under way; changed() follows when that one is answered. */
void delivery_flush(struct delivery *self);

/* Sends a query, which is one or more encoded commands that change nothing, with the next request:
   before the next batch, or with the ownership transaction. The delivery frees `commands`. Commands
   without a reply are sent again after a lost connection, before any batch. `answer` is called once
   per command, in order, unless the delivery fails; if Redis has lost data, after that notification
   was taken. A string longer than payload_limit() is truncated. No batch is delivered between the
   execution of the query and its last answer. Only one query may be pending. */
typedef void query_answer(void *owner, const struct reply *reply);
void delivery_query(struct delivery *self, char *commands, query_answer *answer, void *owner);

/* Announces that the next batches are the last ones: `committed` then expires after
   DELIVERY_LAST_SECONDS. An agent that was cut off can find out until then that it no longer owns
   the job. */
#define DELIVERY_LAST_SECONDS 3600
void delivery_end(struct delivery *self);

/* Makes the next delivery_flush read `committed` on this connection. This checks that Redis replies
   and still has the data that it acknowledged. Only if this agent owns the job. */
void delivery_check_ownership(struct delivery *self);

/* Takes a value of `committed` that another connection has read (NULL if the key does not exist).
   Returns false if it names another agent. An unexpected value causes an ownership check, because
   only values that the delivery's own connection has read count. Only if this agent owns the
   job. */
bool delivery_compare_committed(struct delivery *self, const char *committed, size_t length);

/* Returns true once this agent owns the job, also after the delivery has failed. */
bool delivery_is_owner(const struct delivery *self);

/* Returns true if another agent owned the job before, as far as Redis knows. */
bool delivery_had_owner(const struct delivery *self);

/* Returns true from DELIVERY_LOST_DATA until the next delivery. If Redis loses data again in that
   time, there is no second notification. */
bool delivery_has_lost_data(const struct delivery *self);

/* Returns true if the delivery has failed, or the connection was lost and an attempt to reconnect
   has failed. */
bool delivery_is_unreachable(const struct delivery *self);

/* Returns the id of the newest entry of the stream that this agent has added and Redis has
   acknowledged; "" if it is not known, also after a loss of data. All entries that are queued now
   get higher ids. */
const char *delivery_newest_entry(const struct delivery *self);

/* Returns how many times the connection was ready again after a loss. */
uint64_t delivery_reconnections(const struct delivery *self);
