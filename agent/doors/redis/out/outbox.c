#include "agent/doors/redis/out/outbox.h"

#include <stdlib.h>

#include "agent/doors/redis/out/delivery.h"
#include "agent/doors/redis/out/send_queue.h"
#include "base/loop.h"
#include "base/memory.h"

/* How often the keys' time is set anew: three times in it, once an hour at least. */
#define REFRESHES 3
#define REFRESH_MAX_SECONDS 3600

struct outbox {
  const struct outbox_handler *handler;
  void *owner;
  struct send_queue send_queue;
  struct records records;
  struct delivery *delivery;
  struct event *refresh;
  int64_t refresh_ms; /* 0: never */
  size_t hold_bytes;
  size_t room_bytes; /* there is room again when no more is held */
  bool waited_for;
  uint64_t beat_start; /* of the last beat, in all that was ever held */
  size_t beat_length;  /* 0: there was none */
};

static bool holds_beat(const struct outbox *self) {
  return self->beat_length > 0 && self->send_queue.gone <= self->beat_start;
}

void outbox_event(struct outbox *self, const struct step_event *event) {
  records_event(&self->records, event);
}

void outbox_started(struct outbox *self, const char *step_id) {
  records_started(&self->records, step_id);
}

void outbox_result(struct outbox *self, const struct step_event *completed,
                   const struct step_result *result, const struct claimed *claimed, bool started) {
  records_result(&self->records, completed, result, claimed, started);
}

void outbox_removal(struct outbox *self, const struct claimed *claimed) {
  records_removal(&self->records, claimed);
}

void outbox_removal_of_copy(struct outbox *self, const struct claimed *claimed) {
  records_removal_of_copy(&self->records, claimed);
}

void outbox_return(struct outbox *self, const struct claimed *claimed) {
  records_return(&self->records, claimed);
}

bool outbox_beat(struct outbox *self, const char *value, const char *seconds) {
  if (holds_beat(self))
    return false;
  size_t before = self->send_queue.bytes;
  records_beat(&self->records, value, seconds);
  self->beat_start = self->send_queue.gone + before;
  self->beat_length = self->send_queue.bytes - before;
  return true;
}

void outbox_farewell(struct outbox *self) {
  records_farewell(&self->records);
}

void outbox_flush(struct outbox *self) {
  delivery_go(self->delivery);
}

bool outbox_is_full(struct outbox *self, size_t more) {
  bool full = self->send_queue.bytes > 0 && self->send_queue.bytes + more >= self->hold_bytes;
  self->waited_for |= full;
  return full;
}

bool outbox_is_empty(const struct outbox *self) {
  return self->send_queue.bytes == (holds_beat(self) ? self->beat_length : 0);
}

bool outbox_is_ready(const struct outbox *self) {
  return delivery_is_claimed(self->delivery);
}

bool outbox_had_owner(const struct outbox *self) {
  return delivery_had_owner(self->delivery);
}

void outbox_probe(struct outbox *self) {
  delivery_probe(self->delivery);
}

bool outbox_is_ours(struct outbox *self, const char *committed, size_t length) {
  return delivery_is_ours(self->delivery, committed, length);
}

bool outbox_is_gone(const struct outbox *self) {
  return delivery_is_gone(self->delivery);
}

bool outbox_returns(const struct outbox *self, const struct claimed *claimed) {
  return records_returns(&self->records, claimed);
}

size_t outbox_removals(const struct outbox *self, const struct claimed *claimed) {
  return records_removals(&self->records, claimed);
}

void outbox_each_result(const struct outbox *self,
                        void (*result)(void *owner, const char *json, size_t length), void *owner) {
  records_each_result(&self->records, result, owner);
}

void outbox_ask(struct outbox *self, char *commands,
                void (*answer)(void *owner, const struct redisReply *reply, bool whole),
                void *owner) {
  delivery_ask(self->delivery, commands, answer, owner);
}

static void start_refresh(struct outbox *self) {
  if (self->refresh_ms > 0)
    loop_timer_start(self->refresh, self->refresh_ms);
}

static void on_refresh(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct outbox *self = context;
  /* Nobody needs it twice while Redis is away. */
  if (!delivery_is_gone(self->delivery)) {
    records_refresh(&self->records);
    delivery_go(self->delivery);
  }
  start_refresh(self);
}

static void on_connected(void *owner) {
  struct outbox *self = owner;
  self->handler->connected(self->owner);
}

static char *on_claiming(void *owner) {
  struct outbox *self = owner;
  return self->handler->claiming != NULL ? self->handler->claiming(self->owner) : NULL;
}

static void on_claimed(void *owner) {
  struct outbox *self = owner;
  records_refresh(&self->records);
  start_refresh(self);
  self->handler->ready(self->owner);
}

static void on_delivered(void *owner) {
  struct outbox *self = owner;
  if (outbox_is_empty(self))
    self->handler->empty(self->owner);
  if (self->waited_for && self->send_queue.bytes <= self->room_bytes) {
    self->waited_for = false;
    self->handler->room(self->owner);
  }
}

static void on_forgotten(void *owner) {
  struct outbox *self = owner;
  self->handler->forgotten(self->owner);
}

static void on_unreachable(void *owner) {
  struct outbox *self = owner;
  self->handler->gone(self->owner);
}

static void on_failed(void *owner, const struct error *error) {
  struct outbox *self = owner;
  self->handler->failed(self->owner, error);
}

struct outbox *outbox_new(struct event_base *base, const struct log *log,
                          const struct outbox_options *options,
                          const struct outbox_handler *handler, void *owner) {
  static const struct delivery_handler delivery_handler = {.connected = on_connected,
                                                           .claiming = on_claiming,
                                                           .claimed = on_claimed,
                                                           .delivered = on_delivered,
                                                           .forgotten = on_forgotten,
                                                           .unreachable = on_unreachable,
                                                           .failed = on_failed};
  struct outbox *self = memory_allocate(sizeof *self);
  *self = (struct outbox){.handler = handler, .owner = owner, .hold_bytes = options->hold_bytes};
  /* Room is given in small pieces, so that it is made use of between two windows. */
  size_t piece = 2 * SEND_QUEUE_CHUNK_SIZE;
  self->room_bytes =
      options->hold_bytes > 4 * piece ? options->hold_bytes - piece : options->hold_bytes / 4 * 3;
  send_queue_init(&self->send_queue);
  records_init(&self->records, &self->send_queue, options->keys, options->events_maxlen,
               options->key_ttl_seconds);
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
                                              .key_ttl_seconds = options->key_ttl_seconds};
  self->delivery =
      delivery_new(base, log, &delivery_options, &self->send_queue, &delivery_handler, self);
  return self;
}

void outbox_free(struct outbox *self) {
  delivery_free(self->delivery);
  event_free(self->refresh);
  records_release(&self->records);
  send_queue_free(&self->send_queue);
  free(self);
}

void outbox_start(struct outbox *self) {
  delivery_start(self->delivery);
}
