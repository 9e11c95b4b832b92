#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Decides how many entries the event stream keeps: `maxlen`, and more after a burst. Entries that
 * Redis has had for less than RETENTION_MS are not trimmed, as long as their events have at most
 * `keep_bytes` in total, so that a reader that polls sees them. The outbox calls it. It does no
 * I/O: the caller passes the time (of any clock that does not go back) and the number of bytes that
 * were ever queued and delivered.
 *
 *   retention_add              when events are queued: returns the length to trim the stream to now
 *   retention_delivered        from time to time, at least as often as events are queued
 *   retention_is_trimmed       false: call retention_trim_late in RETENTION_TICK_MS
 *   retention_trim_late        returns the length to trim the stream to now
 *
 * Successive events are counted together in spans, and a span is kept or dropped as a whole.
 */
#define RETENTION_MS 5000
#define RETENTION_TICK_MS 1000

/* A span ends when it has one RETENTION_PARTS-th of `keep_bytes`, or has lasted for
   RETENTION_SPAN_MS. So there are fewer than RETENTION_SPANS spans at a time. If deliveries are
   delayed, the last span grows instead. */
#define RETENTION_PARTS 32
#define RETENTION_SPAN_MS 250
#define RETENTION_SPANS 64

/* The stream is trimmed when it has this many entries too many, not for each entry. MAXLEN ~ of
   Redis leaves as many: the entries of a node (stream-node-max-entries). */
#define RETENTION_SLACK 100

struct retention_span {
  uint64_t events;
  uint64_t bytes;
  uint64_t end;         /* the number of bytes that were ever queued, up to the end of the span */
  int64_t opened_ms;    /* the first delivery of the span, or RETENTION_NEVER */
  int64_t delivered_ms; /* the last delivery; RETENTION_NEVER if a part is not delivered */
};
#define RETENTION_NEVER INT64_MIN

struct retention {
  uint64_t maxlen;
  uint64_t keep_bytes;
  uint64_t length;                              /* an upper bound of the stream's length */
  uint64_t events;                              /* in all spans */
  uint64_t bytes;                               /* in all spans */
  struct retention_span spans[RETENTION_SPANS]; /* the oldest first */
  size_t count;
};

/* Returns false if `maxlen` or `keep_bytes`, which the owner sets, is 0. Nothing is trimmed
   then. */
bool retention_is_on(const struct retention *self);

/* The stream was written by an earlier agent and may be longer than `maxlen`. */
void retention_resume(struct retention *self);

/* Counts events that were queued up to byte `end` of all bytes that were ever queued. Returns the
   length that the caller trims the stream to, or 0 if it need not be trimmed. */
uint64_t retention_add(struct retention *self, uint64_t events, uint64_t bytes, uint64_t end);

/* This many of all bytes that were ever queued are delivered. */
void retention_delivered(struct retention *self, uint64_t bytes, int64_t now_ms);

/* Returns true if the stream is short enough: nothing has to be trimmed later. */
bool retention_is_trimmed(const struct retention *self);

/* Returns `maxlen`, which the caller trims the stream to, if no entry is young anymore and the
   stream may be longer; otherwise 0. */
uint64_t retention_trim_late(struct retention *self);
