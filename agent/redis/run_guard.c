#include "agent/redis/run_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/command.h"
#include "agent/redis/error_reply.h"
#include "agent/redis/link.h"
#include "base/loop.h"
#include "base/memory.h"
#include "wire/step.h"

struct run_guard {
  void (*done)(void *owner, enum run_guard_answer answer, const char *why);
  void *owner;
  struct log log; /* the link's: what is wrong the owner hears, once */
  struct link *link;
  struct event *finish; /* when the time is up, or as soon as the link no longer is on the stack */
  char *question;
  enum run_guard_answer answer;
  char why[256];
};

void run_guard_cancel(struct run_guard *self) {
  link_free(self->link);
  event_free(self->finish);
  free(self->question);
  free(self);
}

static void on_finish(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct run_guard *self = context;
  self->done(self->owner, self->answer, self->why);
  run_guard_cancel(self);
}

static void finish(struct run_guard *self, enum run_guard_answer answer, const char *why) {
  self->answer = answer;
  (void)snprintf(self->why, sizeof self->why, "%s", why);
  link_stop(self->link);
  loop_timer_start_now(self->finish);
}

static void on_up(void *owner, const redisReply *last) {
  (void)last;
  struct run_guard *self = owner;
  struct iovec piece = {.iov_base = self->question, .iov_len = strlen(self->question)};
  if (link_write(self->link, &piece, 1) < piece.iov_len)
    link_drop(self->link, "the socket takes no more");
}

/* Only where the answer has to be looked for elsewhere is an error no answer. */
static void on_reply(void *owner, const redisReply *reply) {
  struct run_guard *self = owner;
  if (reply->type == REDIS_REPLY_ERROR && error_reply_moved_to(reply->str) != NULL)
    (void)link_overcomes(self->link, reply->str);
  else if (reply->type == REDIS_REPLY_ERROR)
    finish(self, RUN_GUARD_UNKNOWN, reply->str);
  else
    finish(self, reply->integer == 1 ? RUN_GUARD_ALIVE : RUN_GUARD_OVER, "");
}

static void on_failed(void *owner, const struct error *error) {
  finish(owner, RUN_GUARD_UNKNOWN, error->text);
}

struct run_guard *run_guard_ask(struct event_base *base, const struct log *log,
                                const struct redis_url *url, const char *name, const char *run_id,
                                void (*done)(void *owner, enum run_guard_answer answer,
                                             const char *why),
                                void *owner) {
  static const struct link_handler link_handler = {
      .up = on_up, .reply = on_reply, .failed = on_failed};
  struct run_guard *self = memory_allocate(sizeof *self);
  *self = (struct run_guard){.done = done, .owner = owner, .answer = RUN_GUARD_UNKNOWN};
  (void)snprintf(self->why, sizeof self->why, "no answer within %d s", RUN_GUARD_MS / 1000);
  self->question = command_new((const char *[]){"SISMEMBER", RUN_GUARD_KEY, run_id}, 3);
  self->finish = loop_timer_new(base, on_finish, self);
  loop_timer_start(self->finish, RUN_GUARD_MS);
  struct link_options options = {.url = url,
                                 .role = "run guard",
                                 .name = name,
                                 .patient = true,
                                 .largest_string = STEP_PAYLOAD_MAX};
  self->log = *log;
  if (self->log.least > LOG_DEBUG)
    self->log.least = LOG_ERROR;
  self->link = link_new(base, &self->log, &options, &link_handler, self);
  (void)link_start(self->link);
  return self;
}
