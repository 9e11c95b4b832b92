#ifndef AGENT_REDIS_OUTBOX_H
#define AGENT_REDIS_OUTBOX_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/log.h"
#include "agent/redis/url.h"
#include "wire/error.h"
#include "wire/keys.h"
#include "wire/step_event.h"
#include "wire/step_result.h"

/*
 * The one way out: events and results, in order, over one connection. Each is encoded once, into
 * the bytes that are sent, and held until Redis has acknowledged it; after a lost connection what
 * was not acknowledged is sent again.
 *
 *   outbox_start
 *     ready()             once: connected, and allowed to do what will be done
 *   outbox_event …, outbox_flush       a batch leaves as one write
 *   outbox_result, outbox_flush
 *     room()              after outbox_is_full: it no longer is
 *     empty()             everything was acknowledged
 *     gone()              Redis was lost, and one more attempt to come back to it has failed
 *     failed()            an error that does not pass: nothing more will be sent
 */
struct outbox;

struct outbox_options {
  const struct redis_url *url;
  const struct keys *keys;
  const char *name;                 /* for CLIENT LIST */
  unsigned long long events_maxlen; /* of MAXLEN ~; 0: the stream is not trimmed */
  size_t hold_bytes;                /* full from here on; a record is still taken whole */
};

struct outbox_handler {
  void (*ready)(void *owner);
  void (*room)(void *owner);
  void (*empty)(void *owner);
  void (*gone)(void *owner);
  void (*failed)(void *owner, const struct error *error);
};

/* Url, keys, log and handler must outlive the outbox. */
struct outbox *outbox_new(struct event_base *base, const struct log *log,
                          const struct outbox_options *options,
                          const struct outbox_handler *handler, void *owner);
void outbox_free(struct outbox *self);

void outbox_start(struct outbox *self);

/* Both are taken always; a caller that can wait asks outbox_is_full before. Nothing is sent before
   outbox_flush. */
void outbox_event(struct outbox *self, const struct step_event *event);
void outbox_result(struct outbox *self, const struct step_result *result);
void outbox_flush(struct outbox *self);

bool outbox_is_full(const struct outbox *self);

/* Records that Redis has not acknowledged. */
size_t outbox_unacknowledged(const struct outbox *self);

/* Redis was lost, and an attempt to come back to it has failed; or the outbox has failed. */
bool outbox_is_gone(const struct outbox *self);

#endif
