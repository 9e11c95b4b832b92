#include "agent/redis/intake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/error_reply.h"
#include "agent/redis/link.h"
#include "wire/memory.h"
#include "wire/step.h"

/* How long Redis holds a question, and how much longer an answer may take: together they bound the
   time in which a dead connection is noticed. */
#define BLOCK_SECONDS "10"
#define ANSWER_MS 13000

struct intake {
  const struct intake_handler *handler;
  void *owner;
  struct link *link;
  const char *key;
  char *command;
  size_t command_length;
  bool started;
  bool wanted; /* a step is to be taken */
};

static void ask(struct intake *self) {
  struct iovec piece = {.iov_base = self->command, .iov_len = self->command_length};
  if (link_write(self->link, &piece, 1) < self->command_length && link_is_up(self->link))
    link_drop(self->link, "the socket takes no more");
  link_expect(self->link, ANSWER_MS);
}

static void on_up(void *owner) {
  struct intake *self = owner;
  if (self->wanted)
    ask(self);
}

static void on_error(struct intake *self, const char *text) {
  if (error_reply_passes(text)) {
    link_drop(self->link, text);
    return;
  }
  struct error error;
  (void)error_set(&error, "redis refuses BRPOP %.120s: %.100s", self->key, text);
  link_stop(self->link);
  self->handler->failed(self->owner, &error);
}

static void on_reply(void *owner, const redisReply *reply) {
  struct intake *self = owner;
  if (!self->wanted) {
    link_drop(self->link, "an answer nobody asked for");
    return;
  }
  if (reply->type == REDIS_REPLY_ERROR) {
    on_error(self, reply->str);
    return;
  }
  const redisReply *payload = NULL;
  if (link_reply_too_large(self->link))
    payload = reply;
  else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
    payload = reply->element[1];
  if (payload == NULL || payload->type != REDIS_REPLY_STRING) {
    ask(self); /* nothing came in time */
    return;
  }
  self->wanted = false;
  link_expect(self->link, 0);
  self->handler->step(self->owner, payload->str, payload->len, payload != reply);
}

static void on_failed(void *owner, const struct error *error) {
  struct intake *self = owner;
  self->handler->failed(self->owner, error);
}

struct intake *intake_new(struct event_base *base, const struct log *log,
                          const struct redis_url *url, const char *key, const char *name,
                          const struct intake_handler *handler, void *owner) {
  static const struct link_handler link_handler = {
      .up = on_up, .reply = on_reply, .failed = on_failed};
  struct intake *self = memory_allocate(sizeof *self);
  *self = (struct intake){.handler = handler, .owner = owner, .key = key};
  const char *words[] = {"BRPOP", key, BLOCK_SECONDS};
  char *command;
  long long length = redisFormatCommandArgv(&command, 3, words, NULL);
  if (length < 0)
    memory_exhausted("a command");
  self->command = command;
  self->command_length = (size_t)length;
  struct link_options options = {
      .url = url, .role = "intake", .name = name, .largest_string = STEP_PAYLOAD_MAX};
  self->link = link_new(base, log, &options, &link_handler, self);
  return self;
}

void intake_free(struct intake *self) {
  link_free(self->link);
  redisFreeCommand(self->command);
  free(self);
}

void intake_take(struct intake *self) {
  if (self->wanted)
    return;
  self->wanted = true;
  if (!self->started) {
    self->started = true;
    link_start(self->link);
  } else if (link_is_up(self->link)) {
    ask(self);
  }
}

void intake_stop(struct intake *self) {
  self->wanted = false;
  link_stop(self->link);
}
