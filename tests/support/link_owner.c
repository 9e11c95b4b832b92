#include "tests/support/link_owner.h"

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

static void on_reached(void *owner) {
  ((struct link_owner *)owner)->reached++;
}

static void on_up(void *owner, const redisReply *last) {
  struct link_owner *self = owner;
  snprintf(self->last, sizeof self->last, "%s", last->str != NULL ? last->str : "");
  self->up++;
}

static void on_reply(void *owner, const redisReply *reply) {
  struct link_owner *self = owner;
  self->replies++;
  self->too_large += link_reply_too_large(self->link);
  const char *text = reply->type == REDIS_REPLY_ARRAY ? reply->element[1]->str : reply->str;
  strcat(strcat(self->text, text), " ");
  if (self->drop_at != NULL && strcmp(text, self->drop_at) == 0)
    link_drop(self->link, "the test wants it");
  if (self->stop_at != NULL && strcmp(text, self->stop_at) == 0)
    link_stop(self->link);
}

static void on_writable(void *owner) {
  ((struct link_owner *)owner)->writable++;
}

static void on_down(void *owner) {
  ((struct link_owner *)owner)->down++;
}

static void on_failed(void *owner, const struct error *error) {
  struct link_owner *self = owner;
  self->failed++;
  strcpy(self->error, error->text);
}

static const char *answer(void *owner, const char *command) {
  struct link_owner *self = owner;
  (void)command;
  size_t n = self->answered++;
  return n < sizeof self->login_answers / sizeof *self->login_answers ? self->login_answers[n]
                                                                      : NULL;
}

int link_owner_set_up(void **state) {
  struct link_owner *self = calloc(1, sizeof *self);
  loop_init(&self->loop);
  self->log = (struct log){.least = LOG_INFO, .fd = memfd_create("log", MFD_CLOEXEC)};
  self->server = fake_redis_new(self->loop.base, false);
  fake_redis_answer_with(self->server, answer, self);
  for (size_t i = 0; i < 4; i++)
    self->login_answers[i] = "+OK\r\n";
  self->url = fake_redis_url(self->server);
  *state = self;
  return 0;
}

int link_owner_tear_down(void **state) {
  struct link_owner *self = *state;
  if (self->link != NULL)
    link_free(self->link);
  fake_redis_free(self->server);
  close(self->log.fd);
  loop_release(&self->loop);
  free(self);
  return 0;
}

void link_owner_make(struct link_owner *self, size_t largest_string) {
  static const struct link_handler handler = {.reached = on_reached,
                                              .up = on_up,
                                              .reply = on_reply,
                                              .writable = on_writable,
                                              .down = on_down,
                                              .failed = on_failed};
  struct link_options options = {
      .url = &self->url, .role = "test", .name = "its-name", .largest_string = largest_string};
  self->link = link_new(self->loop.base, &self->log, &options, &handler, self);
}

void link_owner_start(struct link_owner *self, size_t largest_string) {
  link_owner_make(self, largest_string);
  assert_false(link_start(self->link));
  assert_int_equal(self->up + self->failed, 0);
}

void link_owner_comes_up(struct link_owner *self) {
  assert_true(loop_until(&self->loop, loop_is_counted, &self->up));
  assert_true(link_is_up(self->link));
}

void link_owner_comes_back(struct link_owner *self) {
  assert_true(loop_until(&self->loop, loop_is_counted, &self->down));
  self->up = 0;
  self->answered = 0;
  link_owner_comes_up(self);
  assert_int_equal(self->down, 1);
  assert_int_equal(self->failed, 0);
  assert_int_equal(fake_redis_connections(self->server), 2);
}

void link_owner_fails(struct link_owner *self) {
  assert_true(loop_until(&self->loop, loop_is_counted, &self->failed));
  loop_settle(&self->loop);
  assert_int_equal(self->failed, 1);
  assert_false(link_is_up(self->link));
}

int link_owner_logged(const struct link_owner *self, const char *text) {
  char log[16384] = "";
  int found = 0;
  assert_true(pread(self->log.fd, log, sizeof log - 1, 0) >= 0);
  for (const char *at = log; (at = strstr(at, text)) != NULL; at++)
    found++;
  return found;
}
