#ifndef AGENT_FRONTENDS_REDIS_DELIVERY_RETENTION_H
#define AGENT_FRONTENDS_REDIS_DELIVERY_RETENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How many entries of the event stream stay. There are `maxlen` of them, and more after a burst:
 * entries that Redis has had for less than RETENTION_MS are not trimmed, as long as their events
 * have no more than `keep_bytes`, so that a reader that polls sees them. Does no I/O; it is told
 * the time (any clock that does not go back), and how many bytes were ever queued and delivered.
 *
 *   most = retention_add(…)        when events are queued; unless it is 0: trim to that many now
 *   retention_delivered(…)         from time to time, not less often than events are queued
 *   retention_is_settled()         false: to be asked again in RETENTION_TICK_MS:
 *   retention_is_due()               true: trim to `maxlen`; the stream is as it should be
 *
 * Events that are queued one after the other are counted together in spans; what is kept is exact
 * to a span.
 */
#define RETENTION_MS 5000
#define RETENTION_TICK_MS 1000

/* A span ends when it has one RETENTION_PARTS-th of `keep_bytes`, or has lasted for
   RETENTION_SPAN_MS. So there are fewer than RETENTION_SPANS at a time, unless deliveries are
   delayed: then the last span grows. */
#define RETENTION_PARTS 32
#define RETENTION_SPAN_MS 250
#define RETENTION_SPANS 64

/* The stream is trimmed when it has so many entries too many, not for each. Redis' own MAXLEN ~
   leaves as many: the entries of a node (stream-node-max-entries). */
#define RETENTION_SLACK 100

struct retention_span {
  uint64_t events;
  uint64_t bytes;
  uint64_t end;         /* the number of bytes that were ever queued, with it */
  int64_t opened_ms;    /* its first delivery; RETENTION_NEVER */
  int64_t delivered_ms; /* its last; RETENTION_NEVER: some of it is not delivered */
};
#define RETENTION_NEVER INT64_MIN

struct retention {
  uint64_t maxlen;
  uint64_t keep_bytes;
  uint64_t length; /* of the stream, at most */
  uint64_t events; /* in all spans */
  uint64_t bytes;
  struct retention_span spans[RETENTION_SPANS]; /* a ring */
  size_t first;
  size_t count;
};

/* Where one of the first two members, which its owner sets, is 0 it never trims. */
bool retention_is_on(const struct retention *self);

/* The stream is an earlier agent's, and may be longer than `maxlen`. */
void retention_resume(struct retention *self);

/* These events are queued, up to the byte `end` of all that was ever queued. Returns how many
   entries the stream is to have at most, or 0: it need not be trimmed. */
uint64_t retention_add(struct retention *self, uint64_t events, uint64_t bytes, uint64_t end);

/* Of all that was ever queued these bytes are delivered. */
void retention_delivered(struct retention *self, uint64_t bytes, int64_t now_ms);

/* Nothing has to be trimmed later; no entry is young any more and the stream may have more than
   `maxlen`, which the caller now trims it to. */
bool retention_is_settled(const struct retention *self);
bool retention_is_due(struct retention *self);

#endif
