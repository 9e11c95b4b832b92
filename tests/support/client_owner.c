#include "tests/support/client_owner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static void on_connected(void *owner) {
  ((struct client_owner *)owner)->connected++;
}

static void on_ready(void *owner, const redisReply *last) {
  struct client_owner *self = owner;
  snprintf(self->last, sizeof self->last, "%s", last->str != NULL ? last->str : "");
  self->ready++;
}

static void on_reply(void *owner, const redisReply *reply) {
  struct client_owner *self = owner;
  self->replies++;
  self->too_large += client_reply_too_large(self->client);
  const char *text = reply->type == REDIS_REPLY_ARRAY ? reply->element[1]->str : reply->str;
  strcat(strcat(self->text, text), " ");
  if (self->drop_at != NULL && strcmp(text, self->drop_at) == 0)
    client_drop(self->client, "the test wants it");
  if (self->stop_at != NULL && strcmp(text, self->stop_at) == 0)
    client_stop(self->client);
}

static void on_writable(void *owner) {
  ((struct client_owner *)owner)->writable++;
}

static void on_down(void *owner) {
  ((struct client_owner *)owner)->down++;
}

static void on_failed(void *owner, const struct error *error) {
  struct client_owner *self = owner;
  self->failed++;
  strcpy(self->error, error->text);
}

static const char *answer(void *owner, const char *command) {
  struct client_owner *self = owner;
  (void)command;
  size_t n = self->answered++;
  return n < sizeof self->handshake_answers / sizeof *self->handshake_answers
             ? self->handshake_answers[n]
             : NULL;
}

int client_owner_set_up(void **state) {
  struct client_owner *self = calloc(1, sizeof *self);
  loop_init(&self->loop);
  self->log = (struct log){.least = LOG_INFO, .fd = memfd_create("log", MFD_CLOEXEC)};
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

void client_owner_make(struct client_owner *self, size_t largest_string) {
  static const struct client_handler handler = {.connected = on_connected,
                                                .ready = on_ready,
                                                .reply = on_reply,
                                                .writable = on_writable,
                                                .down = on_down,
                                                .failed = on_failed};
  struct client_options options = {
      .url = &self->url, .role = "test", .name = "its-name", .largest_string = largest_string};
  self->client = client_new(self->loop.base, &self->log, &options, &handler, self);
}

void client_owner_start(struct client_owner *self, size_t largest_string) {
  client_owner_make(self, largest_string);
  assert_false(client_start(self->client));
  assert_int_equal(self->ready + self->failed, 0);
}

void client_owner_comes_up(struct client_owner *self) {
  assert_true(loop_until(&self->loop, loop_is_counted, &self->ready));
  assert_true(client_is_ready(self->client));
}

void client_owner_comes_back(struct client_owner *self) {
  assert_true(loop_until(&self->loop, loop_is_counted, &self->down));
  self->ready = 0;
  self->answered = 0;
  client_owner_comes_up(self);
  assert_int_equal(self->down, 1);
  assert_int_equal(self->failed, 0);
  assert_int_equal(fake_redis_connections(self->server), 2);
}

void client_owner_fails(struct client_owner *self) {
  assert_true(loop_until(&self->loop, loop_is_counted, &self->failed));
  loop_settle(&self->loop);
  assert_int_equal(self->failed, 1);
  assert_false(client_is_ready(self->client));
}

int client_owner_logged(const struct client_owner *self, const char *text) {
  char log[16384] = "";
  int found = 0;
  assert_true(pread(self->log.fd, log, sizeof log - 1, 0) >= 0);
  for (const char *at = log; (at = strstr(at, text)) != NULL; at++)
    found++;
  return found;
}
