#include "agent/frontends/redis/heartbeat/run_alive.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/connection/error_reply.h"
#include "agent/frontends/redis/connection/redis_connection.h"
#include "base/loop.h"
#include "base/memory.h"

struct run_alive {
  run_alive_done *done;
  void *owner;
  struct log log; /* for the connection: only errors, because the owner logs the outcome */
  struct redis_connection *connection;
  struct event *finish; /* the timeout; fires at once when there is an answer */
  char *query;
  enum run_alive_answer answer;
  char why[256];
};

void run_alive_cancel(struct run_alive *self) {
  redis_connection_free(self->connection);
  event_free(self->finish);
  free(self->query);
  free(self);
}

LOOP_CALLBACK(on_finish, struct run_alive *self) {
  self->done(self->owner, self->answer, self->why);
  run_alive_cancel(self);
}

static void finish(struct run_alive *self, enum run_alive_answer answer, const char *why) {
  self->answer = answer;
  (void)snprintf(self->why, sizeof self->why, "%s", why);
  redis_connection_stop(self->connection);
  loop_timer_start_now(self->finish);
}

static void on_ready(void *owner, const struct reply *value) {
  (void)value;
  struct run_alive *self = owner;
  redis_connection_send(self->connection, self->query);
}

/* Follows a redirection. Any other error is the outcome. */
static void on_reply(void *owner, const struct reply *reply) {
  struct run_alive *self = owner;
  if (reply->type == REPLY_ERROR && error_reply_redirect(reply->str) != NULL)
    (void)redis_connection_recover(self->connection, reply->str);
  else if (reply->type == REPLY_ERROR)
    finish(self, RUN_ALIVE_UNKNOWN, redis_connection_explain(self->connection, reply->str).text);
  else if (reply->type != REPLY_INTEGER)
    finish(self, RUN_ALIVE_UNKNOWN, "the reply does not fit the request");
  else
    finish(self, reply->integer == 1 ? RUN_ALIVE_YES : RUN_ALIVE_NO, "");
}

static void on_failed(void *owner, const struct error *error) {
  finish(owner, RUN_ALIVE_UNKNOWN, error->text);
}

struct run_alive *run_alive_ask(struct event_base *base, const struct log *log,
                                const struct redis_url *url, const char *name, const char *set,
                                const char *run_id, run_alive_done *done, void *owner) {
  static const struct redis_connection_handler redis_connection_handler = {
      .ready = on_ready, .reply = on_reply, .failed = on_failed};
  struct run_alive *self = memory_allocate(sizeof *self);
  *self = (struct run_alive){.done = done, .owner = owner, .answer = RUN_ALIVE_UNKNOWN};
  (void)snprintf(self->why, sizeof self->why, "no answer within %d s", RUN_ALIVE_MS / 1000);
  self->query = command_new(COMMAND("SISMEMBER", set, run_id));
  self->finish = loop_timer_new(base, on_finish, self);
  loop_timer_start(self->finish, RUN_ALIVE_MS);
  struct redis_connection_options options = {.url = url, .role = "run guard", .name = name};
  self->log = *log;
  if (self->log.least > LOG_DEBUG)
    self->log.least = LOG_ERROR;
  self->connection =
      redis_connection_new(base, &self->log, &options, &redis_connection_handler, self);
  (void)redis_connection_start(self->connection);
  return self;
}
