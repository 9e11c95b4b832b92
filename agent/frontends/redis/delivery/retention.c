#include "agent/frontends/redis/delivery/retention.h"

#include <string.h>

bool retention_is_on(const struct retention *self) {
  return self->maxlen > 0 && self->keep_bytes > 0;
}

static void drop_oldest(struct retention *self) {
  self->events -= self->spans[0].events;
  self->bytes -= self->spans[0].bytes;
  memmove(self->spans, self->spans + 1, --self->count * sizeof *self->spans);
}

static struct retention_span *open_span(struct retention *self) {
  self->spans[self->count] =
      (struct retention_span){.opened_ms = RETENTION_NEVER, .delivered_ms = RETENTION_NEVER};
  return &self->spans[self->count++];
}

/* Returns the span that new events belong to. Sets *opened if the span is new. */
static struct retention_span *last_span(struct retention *self, bool *opened) {
  struct retention_span *last = self->count > 0 ? &self->spans[self->count - 1] : NULL;
  *opened = last == NULL || last->bytes >= self->keep_bytes / RETENTION_PARTS ||
            (last->delivered_ms != RETENTION_NEVER &&
             last->delivered_ms - last->opened_ms >= RETENTION_SPAN_MS);
  if (self->count == RETENTION_SPANS)
    return last;
  return *opened ? open_span(self) : last;
}

void retention_resume(struct retention *self) {
  if (!retention_is_on(self))
    return;
  self->length = self->maxlen + RETENTION_SLACK + 1;
  if (self->count == 0)
    (void)open_span(self);
}

uint64_t retention_add(struct retention *self, uint64_t events, uint64_t bytes, uint64_t end) {
  if (!retention_is_on(self))
    return 0;
  bool opened;
  struct retention_span *last = last_span(self, &opened);
  last->events += events;
  last->bytes += bytes;
  last->end = end;
  last->delivered_ms = RETENTION_NEVER;
  self->events += events;
  self->bytes += bytes;
  self->length += events;
  if (!opened)
    return 0;
  while (self->count > 0 && self->bytes > self->keep_bytes)
    drop_oldest(self);
  uint64_t kept = self->events > self->maxlen ? self->events : self->maxlen;
  if (self->length <= kept + RETENTION_SLACK)
    return 0;
  self->length = kept;
  return kept;
}

void retention_delivered(struct retention *self, uint64_t bytes, int64_t now_ms) {
  for (size_t i = self->count; i-- > 0;) {
    struct retention_span *waiting = &self->spans[i];
    if (waiting->delivered_ms != RETENTION_NEVER)
      break;
    if (waiting->end > bytes)
      continue;
    waiting->delivered_ms = now_ms;
    if (waiting->opened_ms == RETENTION_NEVER)
      waiting->opened_ms = now_ms;
  }
  while (self->count > 0 && self->spans[0].delivered_ms != RETENTION_NEVER &&
         now_ms - self->spans[0].delivered_ms >= RETENTION_MS)
    drop_oldest(self);
}

bool retention_is_trimmed(const struct retention *self) {
  return self->length <= self->maxlen + RETENTION_SLACK;
}

uint64_t retention_trim_late(struct retention *self) {
  if (retention_is_trimmed(self) || self->count > 0)
    return 0;
  self->length = self->maxlen;
  return self->maxlen;
}
