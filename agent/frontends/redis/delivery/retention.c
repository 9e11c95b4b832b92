#include "agent/frontends/redis/delivery/retention.h"

#include <stdio.h>
#include <string.h>

bool retention_is_on(const struct retention *self) {
  return self->maxlen > 0;
}

static void remove_span(struct retention *self, size_t i) {
  memmove(&self->spans[i], &self->spans[i + 1], (--self->count - i) * sizeof *self->spans);
}

static uint64_t events_of(const struct retention *self, size_t i) {
  return (i + 1 < self->count ? self->spans[i + 1].first : self->events) - self->spans[i].first;
}

static uint64_t bytes_of(const struct retention *self, size_t i) {
  return (i + 1 < self->count ? self->spans[i + 1].bytes_before : self->bytes) -
         self->spans[i].bytes_before;
}

uint64_t retention_bytes_kept(const struct retention *self) {
  return self->keep_bytes > 0 ? self->keep_bytes : RETENTION_KEEP_BYTES;
}

/* Joins the two neighbors that are the smallest part of what is kept. */
static void join_smallest(struct retention *self) {
  size_t smallest = 0;
  double least = 0;
  for (size_t i = 0; i + 1 < self->count; i++) {
    double size =
        (double)(bytes_of(self, i) + bytes_of(self, i + 1)) / (double)retention_bytes_kept(self) +
        (double)(events_of(self, i) + events_of(self, i + 1)) / (double)self->maxlen;
    if (i == 0 || size < least) {
      smallest = i;
      least = size;
    }
  }
  struct retention_span *first = &self->spans[smallest], *second = first + 1;
  first->end = second->end;
  first->delivered_ms = second->delivered_ms;
  first->is_old = second->is_old;
  remove_span(self, smallest + 1);
}

static void open_span(struct retention *self, const char *newest) {
  if (self->count == RETENTION_SPANS)
    join_smallest(self);
  struct retention_span *span = &self->spans[self->count++];
  *span = (struct retention_span){.first = self->events,
                                  .bytes_before = self->bytes,
                                  .opened_ms = RETENTION_NEVER,
                                  .delivered_ms = RETENTION_NEVER};
  (void)snprintf(span->after, sizeof span->after, "%s", newest);
}

/* Returns true if new events do not belong to the last span. */
static bool needs_span(const struct retention *self) {
  if (self->count == 0)
    return true;
  const struct retention_span *last = &self->spans[self->count - 1];
  return self->bytes - last->bytes_before >= retention_bytes_kept(self) / RETENTION_PARTS ||
         self->events - last->first > self->maxlen / RETENTION_EVENT_PARTS ||
         (last->delivered_ms != RETENTION_NEVER &&
          last->delivered_ms - last->opened_ms >= RETENTION_SPAN_MS);
}

void retention_resume(struct retention *self) {
  if (!retention_is_on(self))
    return;
  self->length = self->maxlen + RETENTION_SLACK + 1;
  if (self->count == 0)
    open_span(self, "");
}

bool retention_add(struct retention *self, uint64_t events, uint64_t bytes, uint64_t end,
                   const char *newest) {
  if (!retention_is_on(self))
    return false;
  bool opens = needs_span(self);
  if (opens)
    open_span(self, newest);
  struct retention_span *last = &self->spans[self->count - 1];
  last->end = end;
  last->delivered_ms = RETENTION_NEVER;
  self->events += events;
  self->bytes += bytes;
  self->length += events;
  return opens;
}

void retention_delivered(struct retention *self, uint64_t bytes, int64_t now_ms) {
  for (size_t i = self->count; i-- > 0;) {
    struct retention_span *span = &self->spans[i];
    if (span->delivered_ms == RETENTION_NEVER && span->end <= bytes) {
      span->delivered_ms = now_ms;
      if (span->opened_ms == RETENTION_NEVER)
        span->opened_ms = now_ms;
    }
    span->is_old =
        span->delivered_ms != RETENTION_NEVER && now_ms - span->delivered_ms >= RETENTION_MS;
  }
}

void retention_forget_ids(struct retention *self) {
  for (size_t i = 0; i < self->count; i++)
    self->spans[i].after[0] = '\0';
}

bool retention_is_trimmed(const struct retention *self) {
  return self->length <= self->maxlen + RETENTION_SLACK;
}

/* Returns the number of the first of the newest events that have at most this many bytes; of young
   ones only, unless `with_old`. */
static uint64_t newest_from(const struct retention *self, uint64_t bytes, bool with_old) {
  uint64_t from = self->events;
  for (size_t i = self->count; i-- > 0 && (with_old || !self->spans[i].is_old);) {
    if (self->bytes - self->spans[i].bytes_before > bytes)
      break;
    from = self->spans[i].first;
  }
  return from;
}

bool retention_has_young(const struct retention *self) {
  return self->count > 0 && !self->spans[self->count - 1].is_old;
}

/* Keeps the events from this one on, and at least the newest `maxlen`. */
static struct retention_cut trim_by_length(struct retention *self, uint64_t from) {
  uint64_t kept = self->events - from;
  while (self->count > 0 && self->spans[0].first < from)
    remove_span(self, 0);
  if (kept < self->maxlen)
    kept = self->maxlen;
  if (self->length <= kept + RETENTION_SLACK)
    return (struct retention_cut){0};
  self->length = kept;
  return (struct retention_cut){.maxlen = kept};
}

struct retention_cut retention_trim(struct retention *self, uint64_t protected_from) {
  uint64_t young = newest_from(self, self->keep_bytes, false);
  if (protected_from == RETENTION_UNPROTECTED)
    return trim_by_length(self, young);
  uint64_t bytes =
      self->keep_bytes > RETENTION_KEEP_BYTES ? self->keep_bytes : RETENTION_KEEP_BYTES;
  uint64_t from = newest_from(self, bytes, true);
  if (self->events > self->maxlen && from < self->events - self->maxlen)
    from = self->events - self->maxlen;
  from = from < young ? from : young;
  from = from < protected_from ? from : protected_from;
  while (self->count > 1 && self->spans[1].first <= from)
    remove_span(self, 0);
  const struct retention_span *span = &self->spans[0];
  if (self->count == 0 || span->first > from || span->first <= self->cut || span->after[0] == '\0')
    return (struct retention_cut){0};
  self->cut = span->first;
  if (self->length > self->events - self->cut)
    self->length = self->events - self->cut;
  return (struct retention_cut){.minid = span->after};
}

uint64_t retention_bytes_before(const struct retention *self, uint64_t event) {
  if (event >= self->events)
    return self->bytes;
  size_t i = self->count;
  while (i > 0 && self->spans[i - 1].first > event)
    i--;
  return i > 0 ? self->spans[i - 1].bytes_before : 0;
}
