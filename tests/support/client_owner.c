#include "tests/support/client_owner.h"

#include <unistd.h>

#include "tests/support/logged.h"
#include "tests/test.h"

static void on_connected(void *owner) {
  recorder_add(&((struct client_owner *)owner)->recorder, "connected");
}

static void on_ready(void *owner, const redisReply *value) {
  struct client_owner *self = owner;
  snprintf(self->value, sizeof self->value, "%s", value->str != NULL ? value->str : "nil");
  recorder_add(&self->recorder, "ready");
}

static void on_reply(void *owner, const redisReply *reply) {
  struct client_owner *self = owner;
  recorder_add(&self->recorder, reply->str);
  if (self->drop_at != NULL && strcmp(reply->str, self->drop_at) == 0)
    client_reconnect(self->client, "the test wants it");
  else if (self->stop_at != NULL && strcmp(reply->str, self->stop_at) == 0)
    client_stop(self->client);
}

static void on_writable(void *owner) {
  recorder_add(&((struct client_owner *)owner)->recorder, "writable");
}

static void on_down(void *owner) {
  recorder_add(&((struct client_owner *)owner)->recorder, "lost");
}

static void on_unreachable(void *owner) {
  recorder_add(&((struct client_owner *)owner)->recorder, "unreachable");
}

static void on_failed(void *owner, const struct error *error) {
  struct client_owner *self = owner;
  recorder_add(&self->recorder, "failed");
  strcpy(self->error, error->text);
}

static const char *answer(void *owner, const char *command) {
  struct client_owner *self = owner;
  (void)command;
  if (self->connection != fake_redis_connections(self->server))
    self->answered = 0;
  self->connection = fake_redis_connections(self->server);
  size_t n = self->answered++;
  return n < sizeof self->handshake_answers / sizeof *self->handshake_answers
             ? self->handshake_answers[n]
             : NULL;
}

int client_owner_set_up(void **state) {
  struct client_owner *self = calloc(1, sizeof *self);
  loop_init(&self->loop);
  self->log = logged_open(LOG_INFO);
  self->server = fake_redis_new(self->loop.base, false);
  fake_redis_answer_with(self->server, answer, self);
  for (size_t i = 0; i < 4; i++)
    self->handshake_answers[i] = "+OK\r\n";
  self->url = fake_redis_url(self->server);
  *state = self;
  return 0;
}

int client_owner_tear_down(void **state) {
  struct client_owner *self = *state;
  if (self->client != NULL)
    client_free(self->client);
  fake_redis_free(self->server);
  close(self->log.fd);
  loop_release(&self->loop);
  free(self);
  return 0;
}

int client_owner_set_up_ready(void **state) {
  client_owner_set_up(state);
  client_owner_becomes_ready(*state);
  return 0;
}

void client_owner_make(struct client_owner *self, size_t largest_string) {
  static const struct client_handler handler = {.connected = on_connected,
                                                .ready = on_ready,
                                                .reply = on_reply,
                                                .writable = on_writable,
                                                .disconnected = on_down,
                                                .unreachable = on_unreachable,
                                                .failed = on_failed};
  struct client_options options = {
      .url = &self->url, .role = "test", .name = "its-name", .largest_string = largest_string};
  self->client = client_new(self->loop.base, &self->log, &options, &handler, self);
}

void client_owner_start(struct client_owner *self, size_t largest_string) {
  client_owner_make(self, largest_string);
  recorder_reset(&self->recorder);
  assert_false(client_start(self->client));
  assert_string_equal(recorder_text(&self->recorder), ""); /* not from inside */
}

void client_owner_expect(struct client_owner *self, const char *transcript) {
  recorder_expect(&self->loop, &self->recorder, transcript);
}

void client_owner_becomes_ready(struct client_owner *self) {
  client_owner_start(self, SIZE_MAX);
  client_owner_expect(self, "connected ready");
  assert_true(client_is_ready(self->client));
}

int client_owner_logged(const struct client_owner *self, const char *text) {
  return logged_count(&self->log, text);
}
