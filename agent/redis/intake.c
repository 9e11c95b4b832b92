#include "agent/redis/intake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/command.h"
#include "agent/redis/error_reply.h"
#include "agent/redis/link.h"
#include "base/memory.h"
#include "wire/step.h"

/* How much longer than Redis holds a question an answer may take: together they bound the time in
   which a dead connection is noticed, and a question that was given up has ended by then. */
#define ANSWER_MS (INTAKE_BLOCK_SECONDS * 1000 + 3000)

struct intake {
  const struct intake_handler *handler;
  void *owner;
  struct link *link;
  const char *key;
  char *move;     /* BLMOVE, or what there was before Redis 6.2 */
  char *old_move; /* BRPOPLPUSH; NULL once it is in use */
  bool started;
  bool wanted;   /* a step is to be taken */
  bool asked;    /* it was asked for, on this connection */
  bool doubtful; /* a connection was lost, and there was none since */
};

static void ask(struct intake *self) {
  struct iovec piece = {.iov_base = self->move, .iov_len = strlen(self->move)};
  self->asked = true;
  if (link_write(self->link, &piece, 1) < piece.iov_len && link_is_up(self->link))
    link_drop(self->link, "the socket takes no more");
  link_expect(self->link, ANSWER_MS);
}

static void on_up(void *owner, const redisReply *last) {
  (void)last;
  struct intake *self = owner;
  bool doubtful = self->doubtful;
  self->doubtful = self->asked = false;
  if (doubtful) {
    self->wanted = false;
    self->handler->doubtful(self->owner);
  } else if (self->wanted) {
    ask(self);
  }
}

static void on_down(void *owner) {
  struct intake *self = owner;
  self->doubtful = true;
}

static void on_error(struct intake *self, const char *text) {
  static const char unknown[] = "ERR unknown command";
  if (self->old_move != NULL && strncmp(text, unknown, sizeof unknown - 1) == 0) {
    free(self->move);
    self->move = self->old_move;
    self->old_move = NULL;
    ask(self);
    return;
  }
  /* It was not done; but a Redis that changes its role may have gone back too. */
  if (link_overcomes(self->link, text))
    return;
  struct error error;
  (void)error_set(&error, "redis refuses %s %.120s: %.100s",
                  self->old_move != NULL ? "BLMOVE" : "BRPOPLPUSH", self->key,
                  error_reply_explain(text));
  link_stop(self->link);
  self->handler->failed(self->owner, &error);
}

static void on_reply(void *owner, const redisReply *reply) {
  struct intake *self = owner;
  if (!self->asked) {
    link_drop(self->link, "an answer nobody asked for");
    return;
  }
  if (reply->type == REDIS_REPLY_ERROR) {
    on_error(self, reply->str);
    return;
  }
  self->wanted = self->asked = false;
  link_works(self->link);
  link_expect(self->link, 0);
  struct taken taken = {
      .payload = reply->str, .length = reply->len, .whole = !link_reply_too_large(self->link)};
  if (reply->type == REDIS_REPLY_STRING)
    self->handler->step(self->owner, &taken);
  else
    self->handler->nothing(self->owner);
}

static void on_failed(void *owner, const struct error *error) {
  struct intake *self = owner;
  self->handler->failed(self->owner, error);
}

struct intake *intake_new(struct event_base *base, const struct log *log,
                          const struct redis_url *url, const struct keys *keys, const char *name,
                          const struct intake_handler *handler, void *owner) {
  static const struct link_handler link_handler = {
      .up = on_up, .reply = on_reply, .down = on_down, .failed = on_failed};
  struct intake *self = memory_allocate(sizeof *self);
  *self = (struct intake){.handler = handler, .owner = owner, .key = keys->in};
  char seconds[8];
  (void)snprintf(seconds, sizeof seconds, "%d", INTAKE_BLOCK_SECONDS);
  const char *words[] = {"BLMOVE", keys->in, keys->inflight, "RIGHT", "LEFT", seconds};
  const char *old_words[] = {"BRPOPLPUSH", keys->in, keys->inflight, seconds};
  self->move = command_new(words, 6);
  self->old_move = command_new(old_words, 4);
  struct link_options options = {
      .url = url, .role = "intake", .name = name, .largest_string = STEP_PAYLOAD_MAX};
  self->link = link_new(base, log, &options, &link_handler, self);
  return self;
}

void intake_free(struct intake *self) {
  link_free(self->link);
  free(self->move);
  free(self->old_move);
  free(self);
}

void intake_prepare(struct intake *self) {
  if (!self->started)
    link_prepare(self->link);
}

void intake_take(struct intake *self) {
  if (self->wanted)
    return;
  self->wanted = true;
  if (!self->started) {
    self->started = true;
    if (link_start(self->link))
      ask(self);
  } else if (link_is_up(self->link)) {
    ask(self);
  }
}

void intake_stop(struct intake *self) {
  self->wanted = false;
  link_stop(self->link);
}
