#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Decides how many entries the event stream keeps: `maxlen`, and more after a burst. Entries that
 * Redis has had for less than RETENTION_MS are not trimmed, as long as their events have at most
 * `keep_bytes` in total, so that a reader that polls sees them. Neither are events that a reader
 * protects (flow_control.h). The outbox calls it. It does no I/O: the caller passes the time (of
 * any clock that does not go back) and the number of bytes that were ever queued and delivered.
 *
 *   retention_add              when events are queued; true: call retention_trim
 *   retention_delivered        from time to time, at least as often as events are queued
 *   retention_is_trimmed       false: call retention_trim in RETENTION_TICK_MS
 *   retention_trim             returns how to trim the stream now
 *
 * Successive events are counted together in spans, and a span is kept or dropped as a whole.
 */
#define RETENTION_MS 5000
#define RETENTION_TICK_MS 1000

/* The default of `keep_bytes`. It also counts if that is 0 and a reader protects events. */
#define RETENTION_KEEP_BYTES (UINT64_C(8) * 1024 * 1024)

/* A span ends when it has one RETENTION_PARTS-th of `keep_bytes`, more than one
   RETENTION_EVENT_PARTS-th of `maxlen`, or has lasted for RETENTION_SPAN_MS. If there are too many
   spans, small neighbors become one. */
#define RETENTION_PARTS 32
#define RETENTION_EVENT_PARTS 4
#define RETENTION_SPAN_MS 250
#define RETENTION_SPANS 64

/* The stream is trimmed when it has this many entries too many, not for each entry. MAXLEN ~ of
   Redis leaves as many: the entries of a node (stream-node-max-entries). */
#define RETENTION_SLACK 100

/* An id of an entry, with a NUL: two numbers of 64 bits and a hyphen. */
#define RETENTION_ID_SIZE 42

struct retention_span {
  uint64_t first;                /* the number of events before the span */
  uint64_t bytes_before;         /* their bytes */
  uint64_t end;                  /* the number of bytes that were ever queued, up to its end */
  int64_t opened_ms;             /* the first delivery of the span, or RETENTION_NEVER */
  int64_t delivered_ms;          /* the last delivery; RETENTION_NEVER if a part is not delivered */
  bool is_old;                   /* for RETENTION_MS */
  char after[RETENTION_ID_SIZE]; /* an id that is lower than those of its entries; "": unknown */
};
#define RETENTION_NEVER INT64_MIN

struct retention {
  uint64_t maxlen;                              /* 0: nothing is trimmed */
  uint64_t keep_bytes;                          /* 0: young events are not kept */
  uint64_t length;                              /* an upper bound of the stream's length */
  uint64_t events, bytes;                       /* that were ever queued */
  uint64_t cut;                                 /* the events before this one were trimmed by id */
  struct retention_span spans[RETENTION_SPANS]; /* the oldest first */
  size_t count;
};

/* How to trim the stream: to its newest `maxlen` entries, or to those with at least the id `minid`,
   which is borrowed. 0 and NULL: not at all. */
struct retention_cut {
  uint64_t maxlen;
  const char *minid;
};

/* Returns false if nothing is ever trimmed. The owner sets `maxlen` and `keep_bytes`. */
bool retention_is_on(const struct retention *self);

/* Returns `keep_bytes`, or its default if that is 0. A reader may be this far behind. */
uint64_t retention_bytes_kept(const struct retention *self);

/* Begins with a stream that an earlier agent has written, and that may be longer than `maxlen`. */
void retention_resume(struct retention *self);

/* Counts events that were queued up to byte `end` of all bytes that were ever queued. `newest` is
   the id of the newest known entry, or "". Returns true if the stream may have to be trimmed. */
bool retention_add(struct retention *self, uint64_t events, uint64_t bytes, uint64_t end,
                   const char *newest);

/* This many of all bytes that were ever queued are delivered. */
void retention_delivered(struct retention *self, uint64_t bytes, int64_t now_ms);

/* Redis has lost data: the ids of its entries may begin again. */
void retention_forget_ids(struct retention *self);

/* Returns true if the stream is short enough: nothing has to be trimmed later. */
bool retention_is_trimmed(const struct retention *self);

/* Returns how the caller trims the stream now. Events from number `protected_from` on are kept;
   they are found by their id, because other programs may add entries. Of the events before them,
   which may be as large as those of raw output, at most RETENTION_KEEP_BYTES are kept, or
   `keep_bytes` if that is more.
   RETENTION_UNPROTECTED: none is protected. */
#define RETENTION_UNPROTECTED UINT64_MAX
struct retention_cut retention_trim(struct retention *self, uint64_t protected_from);

/* Returns true if an event is younger than RETENTION_MS. */
bool retention_has_young(const struct retention *self);

/* Returns the number of bytes before an event, or fewer by at most those of a span. */
uint64_t retention_bytes_before(const struct retention *self, uint64_t event);
