#include "agent/doors/redis/delivery/outbox.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* How often the keys' time to live is restarted: this often in it, and at least once an hour. */
#define REFRESHES 3
#define REFRESH_MAX_SECONDS 3600

static bool has_beat(const struct outbox *self) {
  return self->beat_length > 0 && self->send_queue.gone <= self->beat_start;
}

/* What is delivered is looked up, and not reported: nothing depends on some milliseconds. */
static void look_at_deliveries(struct outbox *self) {
  struct retention *retention = &self->records.retention;
  retention_delivered(retention, self->send_queue.gone, clock_monotonic_ms());
  if (!retention_is_settled(retention) && !evtimer_pending(self->trim, NULL))
    loop_timer_start(self->trim, RETENTION_TICK_MS);
}

LOOP_CALLBACK(on_trim, struct outbox *self) {
  look_at_deliveries(self);
  if (!retention_is_due(&self->records.retention))
    return;
  (void)evtimer_del(self->trim);
  records_trim(&self->records, self->records.retention.maxlen);
  delivery_flush(self->delivery);
}

bool outbox_beat(struct outbox *self, const char *value, const char *seconds) {
  if (has_beat(self))
    return false;
  size_t before = self->send_queue.bytes;
  records_beat(&self->records, value, seconds);
  self->beat_start = self->send_queue.gone + before;
  self->beat_length = self->send_queue.bytes - before;
  return true;
}

void outbox_end(struct outbox *self) {
  records_remove_heartbeat(&self->records);
  delivery_end(self->delivery);
}

void outbox_flush(struct outbox *self) {
  if (retention_is_on(&self->records.retention))
    look_at_deliveries(self);
  delivery_flush(self->delivery);
}

size_t outbox_room(const struct outbox *self) {
  if (self->send_queue.bytes == 0)
    return SIZE_MAX;
  return self->send_queue.bytes < self->hold_bytes ? self->hold_bytes - self->send_queue.bytes : 0;
}

bool outbox_has_room_again(const struct outbox *self) {
  return self->send_queue.bytes <= self->room_bytes;
}

bool outbox_is_empty(const struct outbox *self) {
  return self->send_queue.bytes == (has_beat(self) ? self->beat_length : 0);
}

static void start_refresh(struct outbox *self) {
  if (self->refresh_ms > 0)
    loop_timer_start(self->refresh, self->refresh_ms);
}

LOOP_CALLBACK(on_refresh, struct outbox *self) {
  /* One is enough while Redis is unreachable: it is sent with the first batch. */
  if (!delivery_is_unreachable(self->delivery)) {
    records_refresh(&self->records);
    delivery_flush(self->delivery);
  }
  start_refresh(self);
}

void outbox_refresh(struct outbox *self) {
  if (delivery_had_owner(self->delivery)) {
    retention_resume(&self->records.retention);
    look_at_deliveries(self);
  }
  records_refresh(&self->records);
  start_refresh(self);
}

struct outbox *outbox_new(struct event_base *base, const struct log *log,
                          const struct delivery_options *options,
                          const struct delivery_handler *handler, void *owner) {
  struct outbox *self = memory_allocate(sizeof *self);
  *self = (struct outbox){.hold_bytes = options->hold_bytes};
  /* Readers are woken when half a batch of room is free, not when all of it is: they fill it while
     the next batch is under way. */
  size_t piece = BATCH_PIECES / 2 * SEND_QUEUE_CHUNK_SIZE;
  self->room_bytes =
      options->hold_bytes > 4 * piece ? options->hold_bytes - piece : options->hold_bytes / 4 * 3;
  send_queue_init(&self->send_queue);
  records_init(&self->records, &self->send_queue, options->keys, options->events_maxlen,
               options->events_keep_bytes, options->key_ttl_seconds);
  self->trim = loop_timer_new(base, on_trim, self);
  unsigned long long seconds = options->key_ttl_seconds / REFRESHES;
  if (seconds > REFRESH_MAX_SECONDS)
    seconds = REFRESH_MAX_SECONDS;
  self->refresh_ms = (int64_t)seconds * 1000;
  if (options->key_ttl_seconds > 0 && seconds == 0)
    self->refresh_ms = 1000 / REFRESHES;
  self->refresh = loop_timer_new(base, on_refresh, self);
  self->delivery = delivery_new(base, log, options, &self->send_queue, handler, owner);
  return self;
}

void outbox_free(struct outbox *self) {
  delivery_free(self->delivery);
  event_free(self->refresh);
  event_free(self->trim);
  records_release(&self->records);
  send_queue_free(&self->send_queue);
  free(self);
}
