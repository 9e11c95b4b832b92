#include "client/steps/event_stream.h"

#include <stdio.h>
#include <string.h>

/* Entries of one reply. Where that is too large (pipeline_is_truncated) fewer are asked for. */
#define COUNT_MAX 1000

/* So many of one reply: much is printed. */
#define AHEAD_MIN 100

/* How long Redis waits for the first. */
#define BLOCK_MS "1000"

static void ask(struct event_stream *self);

static bool is_entry(const redisReply *entry) {
  return entry->type == REDIS_REPLY_ARRAY && entry->elements == 2 &&
         entry->element[0]->type == REDIS_REPLY_STRING &&
         entry->element[1]->type == REDIS_REPLY_ARRAY && entry->element[1]->elements >= 2 &&
         entry->element[1]->element[1]->type == REDIS_REPLY_STRING;
}

static bool parse_entry(struct event_stream *self, const redisReply *entry,
                        struct event_view *view) {
  const redisReply *data = is_entry(entry) ? entry->element[1]->element[1] : NULL;
  return data != NULL && event_parse(view, data->str, data->len, &self->space);
}

/* Returns NULL when there are none. */
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

static void take_entries(struct event_stream *self, const redisReply *entries) {
  struct event_view view;
  for (size_t i = 0; i < entries->elements && !self->is_over; i++) {
    const redisReply *entry = entries->element[i];
    if (parse_entry(self, entry, &view))
      self->handler->event(self->owner, entry->element[0]->str, entry->element[1]->element[1]->str,
                           entry->element[1]->element[1]->len, &view);
  }
}

/* While much is printed the next entries are asked for before these are taken: Redis is not to wait
   for this program. At the end of a step its server is free at once. */
static bool may_ask_ahead(struct event_stream *self, const redisReply *entries) {
  struct event_view view;
  return entries->elements >= AHEAD_MIN && !self->is_paused &&
         parse_entry(self, entries->element[entries->elements - 1], &view) &&
         view.kind != STEP_EVENT_COMPLETED;
}

static void take_reply(void *owner, const redisReply *reply) {
  struct event_stream *self = owner;
  const redisReply *entries = NULL;
  self->is_asking = false;
  if (reply != NULL && pipeline_is_truncated(self->redis) && self->count == 1)
    self->handler->failed(self->owner, "an event is larger than this program reads");
  else if (reply != NULL && pipeline_is_truncated(self->redis))
    self->count = self->count / 4 > 0 ? self->count / 4 : 1;
  else if (reply != NULL && reply->type == REDIS_REPLY_ERROR)
    self->handler->failed(self->owner, reply->str);
  else if (reply != NULL)
    entries = find_entries(reply);
  if (entries != NULL) {
    const redisReply *last = entries->element[entries->elements - 1];
    if (is_entry(last) && last->element[0]->len < sizeof self->last)
      memcpy(self->last, last->element[0]->str, last->element[0]->len + 1);
    if (may_ask_ahead(self, entries))
      ask(self);
    take_entries(self, entries);
  }
  if (!self->is_over && reply != NULL)
    self->handler->turn(self->owner);
  if (!self->is_over && !self->is_paused && !self->is_asking)
    ask(self);
}

static void ask(struct event_stream *self) {
  char count[16];
  (void)snprintf(count, sizeof count, "%u", self->count);
  self->is_asking = true;
  pipeline_send(self->redis,
                WORDS("XREAD", "COUNT", count, "BLOCK", BLOCK_MS, "STREAMS", self->key, self->last),
                take_reply, self);
}

void event_stream_begin(struct event_stream *self, struct pipeline *redis, const char *key,
                        const char *after, const struct event_stream_handler *handler,
                        void *owner) {
  *self = (struct event_stream){
      .redis = redis, .key = key, .handler = handler, .owner = owner, .count = COUNT_MAX};
  (void)snprintf(self->last, sizeof self->last, "%s", after);
  ask(self);
}

void event_stream_pause(struct event_stream *self) {
  self->is_paused = true;
}

void event_stream_resume(struct event_stream *self) {
  self->is_paused = false;
  if (!self->is_asking)
    ask(self);
}

void event_stream_end(struct event_stream *self) {
  if (self->is_asking)
    pipeline_discard(self->redis);
  self->is_over = true;
  buffer_release(&self->space);
}
