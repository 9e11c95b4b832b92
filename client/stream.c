#include "client/stream.h"

#include <stdio.h>
#include <string.h>

/* Entries of one reply. Where that is too large (server_is_cut) fewer are asked for. */
#define COUNT_MAX 3000

/* How long Redis waits for the first. */
#define BLOCK_MS "1000"

static void ask(struct stream *self);

static bool is_entry(const redisReply *entry) {
  return entry->type == REDIS_REPLY_ARRAY && entry->elements == 2 &&
         entry->element[0]->type == REDIS_REPLY_STRING &&
         entry->element[1]->type == REDIS_REPLY_ARRAY && entry->element[1]->elements >= 2 &&
         entry->element[1]->element[1]->type == REDIS_REPLY_STRING;
}

static void take_entry(struct stream *self, const redisReply *entry) {
  struct event_view view;
  if (!is_entry(entry))
    return;
  const redisReply *data = entry->element[1]->element[1];
  const redisReply *id = entry->element[0];
  if (id->len >= sizeof self->last)
    return;
  memcpy(self->last, id->str, id->len + 1);
  if (event_parse(&view, data->str, data->len, &self->space))
    self->handler->event(self->owner, self->last, data->str, data->len, &view);
}

static void take_entries(struct stream *self, const redisReply *reply) {
  const redisReply *streams = reply->elements > 0 ? reply->element[0] : NULL;
  if (streams == NULL || streams->type != REDIS_REPLY_ARRAY || streams->elements != 2)
    return;
  const redisReply *entries = streams->element[1];
  for (size_t i = 0; entries->type == REDIS_REPLY_ARRAY && i < entries->elements && !self->is_over;
       i++)
    take_entry(self, entries->element[i]);
}

static void take_reply(void *owner, const redisReply *reply) {
  struct stream *self = owner;
  if (reply != NULL && server_is_cut(self->server) && self->count == 1)
    self->handler->failed(self->owner, "an event is larger than this program reads");
  else if (reply != NULL && server_is_cut(self->server))
    self->count = self->count / 4 > 0 ? self->count / 4 : 1;
  else if (reply != NULL && reply->type == REDIS_REPLY_ERROR)
    self->handler->failed(self->owner, reply->str);
  else if (reply != NULL && reply->type == REDIS_REPLY_ARRAY)
    take_entries(self, reply);
  if (!self->is_over && reply != NULL)
    self->handler->turn(self->owner);
  if (!self->is_over)
    ask(self);
}

static void ask(struct stream *self) {
  char count[16];
  (void)snprintf(count, sizeof count, "%u", self->count);
  server_ask(
      self->server,
      SERVER_WORDS("XREAD", "COUNT", count, "BLOCK", BLOCK_MS, "STREAMS", self->key, self->last),
      take_reply, self);
}

void stream_begin(struct stream *self, struct server *server, const char *key, const char *after,
                  const struct stream_handler *handler, void *owner) {
  *self = (struct stream){
      .server = server, .key = key, .handler = handler, .owner = owner, .count = COUNT_MAX};
  (void)snprintf(self->last, sizeof self->last, "%s", after);
  ask(self);
}

void stream_end(struct stream *self) {
  self->is_over = true;
  server_forget(self->server);
  buffer_release(&self->space);
}
