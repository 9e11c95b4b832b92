#include "tests/support/outbox_owner.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* What is said first on every connection: the questions have empty values. */
static bool belongs_to_opening(const char *command) {
  return strncmp(command, "CLIENT", 6) == 0 || strcmp(command, "MULTI") == 0 ||
         strcmp(command, "DISCARD") == 0 || command[strlen(command) - 1] == ' ';
}

static const char *answer(void *owner, const char *command) {
  struct outbox_owner *self = owner;
  if (self->silent)
    return NULL;
  if (self->refuse != NULL && strncmp(command, self->refuse, strlen(self->refuse)) == 0)
    return self->error_reply;
  if (belongs_to_opening(command))
    return "+OK\r\n";
  if (self->acknowledged == 0)
    return NULL;
  self->acknowledged--;
  return "$3\r\n1-0\r\n";
}

static void on_ready(void *owner) {
  ((struct outbox_owner *)owner)->ready++;
}

static void on_room(void *owner) {
  ((struct outbox_owner *)owner)->room++;
}

static void on_empty(void *owner) {
  ((struct outbox_owner *)owner)->empty++;
}

static void on_gone(void *owner) {
  ((struct outbox_owner *)owner)->gone++;
}

static void on_failed(void *owner, const struct error *error) {
  struct outbox_owner *self = owner;
  self->failed++;
  strcpy(self->error, error->text);
}

void outbox_owner_make(struct outbox_owner *self, unsigned long long events_maxlen,
                       size_t hold_bytes) {
  static const struct outbox_handler handler = {
      .ready = on_ready, .room = on_room, .empty = on_empty, .gone = on_gone, .failed = on_failed};
  struct outbox_options options = {.url = &self->url,
                                   .keys = &self->keys,
                                   .name = "its-name",
                                   .events_maxlen = events_maxlen,
                                   .hold_bytes = hold_bytes};
  self->outbox = outbox_new(self->loop.base, &self->log, &options, &handler, self);
}

int outbox_owner_set_up(void **state) {
  struct outbox_owner *self = calloc(1, sizeof *self);
  loop_init(&self->loop);
  self->log.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  self->server = fake_redis_new(self->loop.base, false);
  fake_redis_answer_with(self->server, answer, self);
  self->url = fake_redis_url(self->server);
  self->acknowledged = SIZE_MAX;
  keys_init(&self->keys, "j");
  *state = self;
  return 0;
}

int outbox_owner_tear_down(void **state) {
  struct outbox_owner *self = *state;
  if (self->outbox != NULL)
    outbox_free(self->outbox);
  keys_release(&self->keys);
  fake_redis_free(self->server);
  close(self->log.fd);
  loop_release(&self->loop);
  free(self);
  return 0;
}

void outbox_owner_start(struct outbox_owner *self, unsigned long long events_maxlen,
                        size_t hold_bytes) {
  outbox_owner_make(self, events_maxlen, hold_bytes);
  outbox_start(self->outbox);
  assert_true(loop_until(&self->loop, loop_is_counted, &self->ready));
  assert_false(outbox_is_gone(self->outbox));
}

void outbox_owner_put_event(struct outbox_owner *self, int number, int length) {
  char *line = malloc((size_t)length + 16);
  int n = sprintf(line, "<%d>%*s", number, length, "");
  struct step_event event = {.kind = STEP_EVENT_STDOUT,
                             .step_id = "s",
                             .step_id_length = 1,
                             .line = line,
                             .line_length = (size_t)n,
                             .timestamp = "2026-05-05T10:00:00.123+00:00"};
  outbox_event(self->outbox, &event);
  free(line);
}

void outbox_owner_put_result(struct outbox_owner *self) {
  struct step_result result = {.step_id = "s", .exit_code = 3};
  outbox_result(self->outbox, &result);
}

bool outbox_owner_is_empty(void *context) {
  const struct outbox_owner *self = context;
  return outbox_unacknowledged(self->outbox) == 0;
}

struct arrival {
  struct outbox_owner *self;
  size_t commands;
};

static bool has_arrived(void *context) {
  const struct arrival *arrival = context;
  return fake_redis_commands(arrival->self->server) >= arrival->commands;
}

void outbox_owner_awaits(struct outbox_owner *self, size_t commands) {
  struct arrival arrival = {.self = self, .commands = commands};
  assert_true(loop_until(&self->loop, has_arrived, &arrival));
  loop_settle(&self->loop);
  assert_int_equal(fake_redis_commands(self->server), commands);
}

void outbox_owner_got(const struct outbox_owner *self, size_t number, const char *command,
                      const char *text) {
  const char *arrived = fake_redis_command(self->server, number);
  assert_non_null(arrived);
  assert_int_equal(strncmp(arrived, command, strlen(command)), 0);
  assert_non_null(strstr(arrived, text));
}
