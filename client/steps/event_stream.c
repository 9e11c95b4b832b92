#include "client/steps/event_stream.h"

#include <stdio.h>

/* The most entries of one reply. If they are too large for it, fewer are read. */
#define COUNT_MAX 1000

/* A reply with this many entries is a sign of much output. */
#define AHEAD_MIN 100

/* How long Redis waits for the first entry, in milliseconds. */
#define BLOCK_MS "1000"

static void start_read(struct event_stream *self);

/* Returns NULL if the reply to XREAD has no entries. */
static const redisReply *find_entries(const redisReply *reply) {
  const redisReply *streams =
      reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 ? reply->element[0] : NULL;
  const redisReply *entries =
      streams != NULL && streams->type == REDIS_REPLY_ARRAY && streams->elements == 2
          ? streams->element[1]
          : NULL;
  return entries != NULL && entries->type == REDIS_REPLY_ARRAY && entries->elements > 0 ? entries
                                                                                        : NULL;
}

/* While a step prints much, the next entries are requested before these are shown. At the end of a
   step the pipeline must be free. */
static bool is_worth_reading_ahead(struct event_stream *self, const redisReply *entries) {
  struct event_view view;
  return entries->elements >= AHEAD_MIN && self->state == EVENT_STREAM_READS &&
         event_read(&view, entries->element[entries->elements - 1], &self->space) &&
         view.kind != STEP_EVENT_COMPLETED;
}

static void deliver(struct event_stream *self, const redisReply *entries) {
  struct event_view view;
  const char *last = event_entry_id(entries->element[entries->elements - 1]);
  if (last[0] != '\0')
    (void)snprintf(self->last, sizeof self->last, "%s", last);
  if (is_worth_reading_ahead(self, entries))
    start_read(self);
  for (size_t i = 0; i < entries->elements && self->state != EVENT_STREAM_ENDED; i++)
    if (event_read(&view, entries->element[i], &self->space))
      self->handler->event(self->owner, &view);
}

static void on_reply(void *owner, const redisReply *reply) {
  struct event_stream *self = owner;
  const bool is_truncated = reply != NULL && pipeline_is_truncated(self->redis);
  const redisReply *entries = NULL;
  self->is_reading = false;
  if (is_truncated && self->count == 1)
    self->handler->failed(self->owner, "an event is larger than this program reads");
  else if (is_truncated)
    self->count = self->count / 4 > 0 ? self->count / 4 : 1;
  else if (reply != NULL && reply->type == REDIS_REPLY_ERROR)
    self->handler->failed(self->owner, reply->str);
  else if (reply != NULL)
    entries = find_entries(reply);
  if (entries != NULL)
    deliver(self, entries);
  if (self->state != EVENT_STREAM_ENDED && reply != NULL)
    self->handler->turn(self->owner);
  if (self->state == EVENT_STREAM_READS && !self->is_reading)
    start_read(self);
}

static void start_read(struct event_stream *self) {
  char count[16];
  (void)snprintf(count, sizeof count, "%u", self->count);
  self->is_reading = true;
  pipeline_send(self->redis,
                WORDS("XREAD", "COUNT", count, "BLOCK", BLOCK_MS, "STREAMS", self->key, self->last),
                on_reply, self);
}

void event_stream_begin(struct event_stream *self, struct pipeline *redis, const char *key,
                        const char *after, const struct event_stream_handler *handler,
                        void *owner) {
  *self = (struct event_stream){.state = EVENT_STREAM_READS,
                                .redis = redis,
                                .key = key,
                                .handler = handler,
                                .owner = owner,
                                .count = COUNT_MAX};
  (void)snprintf(self->last, sizeof self->last, "%s", after);
  start_read(self);
}

void event_stream_pause(struct event_stream *self) {
  self->state = EVENT_STREAM_PAUSED;
}

void event_stream_resume(struct event_stream *self) {
  self->state = EVENT_STREAM_READS;
  if (!self->is_reading)
    start_read(self);
}

void event_stream_end(struct event_stream *self) {
  if (self->is_reading)
    pipeline_discard(self->redis);
  self->state = EVENT_STREAM_ENDED;
  buffer_release(&self->space);
}
