#include "agent/doors/redis/delivery/outbox.h"

#include <stdlib.h>

#include "agent/doors/redis/delivery/delivery.h"
#include "agent/doors/redis/delivery/retention.h"
#include "agent/doors/redis/delivery/send_queue.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* How often the keys' time to live is restarted: this often in it, and at least once an hour. */
#define REFRESHES 3
#define REFRESH_MAX_SECONDS 3600

struct outbox {
  struct send_queue send_queue;
  struct records records;
  struct retention retention;
  struct event *trim; /* pending while the stream has to be trimmed later */
  struct delivery *delivery;
  struct event *refresh;
  int64_t refresh_ms; /* 0: never */
  size_t hold_bytes;
  size_t room_bytes;   /* queued; with no more there is room again */
  uint64_t beat_start; /* offset of the last beat in all bytes that were ever queued */
  size_t beat_length;  /* in bytes; 0: there was none */
};

static bool has_beat(const struct outbox *self) {
  return self->beat_length > 0 && self->send_queue.gone <= self->beat_start;
}

/* Events were queued, since there were so many. */
static void retain(struct outbox *self, uint64_t events, uint64_t bytes) {
  uint64_t most = retention_add(&self->retention, self->records.events - events,
                                self->records.event_bytes - bytes,
                                self->send_queue.gone + self->send_queue.bytes);
  if (most > 0)
    records_trim(&self->records, most);
}

/* What is delivered is looked up, and not reported: nothing depends on some milliseconds. */
static void look_at_deliveries(struct outbox *self) {
  retention_delivered(&self->retention, self->send_queue.gone, clock_monotonic_ms());
  if (!retention_is_settled(&self->retention) && !evtimer_pending(self->trim, NULL))
    loop_timer_start(self->trim, RETENTION_TICK_MS);
}

static void on_trim(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct outbox *self = context;
  look_at_deliveries(self);
  if (!retention_is_due(&self->retention))
    return;
  (void)evtimer_del(self->trim);
  records_trim(&self->records, self->retention.maxlen);
  delivery_flush(self->delivery);
}

void outbox_event(struct outbox *self, const struct step_event *event) {
  uint64_t bytes = self->records.event_bytes;
  records_event(&self->records, event);
  retain(self, self->records.events - 1, bytes);
}

size_t outbox_defer_event(struct outbox *self, const struct step_event *event) {
  return records_defer_event(&self->records, event);
}

void outbox_put_deferred(struct outbox *self) {
  uint64_t events = self->records.events, bytes = self->records.event_bytes;
  records_put_deferred(&self->records);
  retain(self, events, bytes);
}

void outbox_started(struct outbox *self, const char *step_id) {
  records_started(&self->records, step_id);
}

struct piece_place outbox_result(struct outbox *self, const struct step_event *completed,
                                 const struct step_result *result, const struct claimed *claimed,
                                 bool started) {
  uint64_t events = self->records.events, bytes = self->records.event_bytes;
  struct piece_place place = records_result(&self->records, completed, result, claimed, started);
  retain(self, events, bytes);
  return place;
}

struct piece_place outbox_removal(struct outbox *self, const struct claimed *claimed) {
  return records_removal(&self->records, claimed);
}

struct piece_place outbox_removal_of_copy(struct outbox *self, const struct claimed *claimed) {
  return records_removal_of_copy(&self->records, claimed);
}

struct piece_place outbox_return(struct outbox *self, const struct claimed *claimed) {
  return records_return(&self->records, claimed);
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
  if (retention_is_on(&self->retention))
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

size_t outbox_bytes(const struct outbox *self) {
  return self->send_queue.bytes;
}

uint64_t outbox_gone(const struct outbox *self) {
  return self->send_queue.gone;
}

bool outbox_is_empty(const struct outbox *self) {
  return self->send_queue.bytes == (has_beat(self) ? self->beat_length : 0);
}

bool outbox_is_owner(const struct outbox *self) {
  return delivery_is_owner(self->delivery);
}

bool outbox_had_owner(const struct outbox *self) {
  return delivery_had_owner(self->delivery);
}

void outbox_probe(struct outbox *self) {
  delivery_probe(self->delivery);
}

bool outbox_check_owner(struct outbox *self, const char *committed, size_t length) {
  return delivery_check_owner(self->delivery, committed, length);
}

bool outbox_has_lost_data(const struct outbox *self) {
  return delivery_has_lost_data(self->delivery);
}

bool outbox_is_unreachable(const struct outbox *self) {
  return delivery_is_unreachable(self->delivery);
}

void outbox_query(struct outbox *self, char *(*ask)(void *owner),
                  void (*answer)(void *owner, const struct redisReply *reply, bool whole),
                  void *owner) {
  delivery_query(self->delivery, ask, answer, owner);
}

static void start_refresh(struct outbox *self) {
  if (self->refresh_ms > 0)
    loop_timer_start(self->refresh, self->refresh_ms);
}

static void on_refresh(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct outbox *self = context;
  /* One is enough while Redis is unreachable: it is sent with the first batch. */
  if (!delivery_is_unreachable(self->delivery)) {
    records_refresh(&self->records);
    delivery_flush(self->delivery);
  }
  start_refresh(self);
}

void outbox_refresh(struct outbox *self) {
  if (delivery_had_owner(self->delivery)) {
    retention_resume(&self->retention);
    look_at_deliveries(self);
  }
  records_refresh(&self->records);
  start_refresh(self);
}

struct outbox *outbox_new(struct event_base *base, const struct log *log,
                          const struct outbox_options *options,
                          const struct delivery_handler *handler, void *owner) {
  struct outbox *self = memory_allocate(sizeof *self);
  *self = (struct outbox){.hold_bytes = options->hold_bytes};
  /* Readers are woken when half a batch of room is free, not when all of it is: they fill it while
     the next batch is under way. */
  size_t piece = BATCH_PIECES / 2 * SEND_QUEUE_CHUNK_SIZE;
  self->room_bytes =
      options->hold_bytes > 4 * piece ? options->hold_bytes - piece : options->hold_bytes / 4 * 3;
  send_queue_init(&self->send_queue);
  retention_init(&self->retention, options->events_maxlen, options->events_keep_bytes);
  bool retains = retention_is_on(&self->retention);
  records_init(&self->records, &self->send_queue, options->keys,
               retains ? 0 : options->events_maxlen, options->key_ttl_seconds);
  self->trim = loop_timer_new(base, on_trim, self);
  unsigned long long seconds = options->key_ttl_seconds / REFRESHES;
  if (seconds > REFRESH_MAX_SECONDS)
    seconds = REFRESH_MAX_SECONDS;
  self->refresh_ms = (int64_t)seconds * 1000;
  if (options->key_ttl_seconds > 0 && seconds == 0)
    self->refresh_ms = 1000 / REFRESHES;
  self->refresh = loop_timer_new(base, on_refresh, self);
  struct delivery_options delivery_options = {.url = options->url,
                                              .keys = options->keys,
                                              .name = options->name,
                                              .trims = retains,
                                              .key_ttl_seconds = options->key_ttl_seconds};
  self->delivery = delivery_new(base, log, &delivery_options, &self->send_queue, handler, owner);
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

void outbox_start(struct outbox *self) {
  delivery_start(self->delivery);
}
