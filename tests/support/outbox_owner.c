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

static void on_connected(void *owner) {
  ((struct outbox_owner *)owner)->connected++;
}

static void on_owned(void *owner) {
  struct outbox_owner *self = owner;
  outbox_refresh(self->outbox);
  self->ready++;
}

static void on_delivered(void *owner) {
  struct outbox_owner *self = owner;
  self->room += outbox_has_room_again(self->outbox);
  self->empty += outbox_is_empty(self->outbox);
}

static void on_lost_data(void *owner) {
  ((struct outbox_owner *)owner)->lost_data++;
}

static void on_unreachable(void *owner) {
  ((struct outbox_owner *)owner)->unreachable++;
}

static void on_failed(void *owner, const struct error *error) {
  struct outbox_owner *self = owner;
  self->failed++;
  strcpy(self->error, error->text);
}

void outbox_owner_make(struct outbox_owner *self, unsigned long long key_ttl_seconds,
                       size_t hold_bytes) {
  static const struct delivery_handler handler = {.connected = on_connected,
                                                  .owned = on_owned,
                                                  .delivered = on_delivered,
                                                  .lost_data = on_lost_data,
                                                  .unreachable = on_unreachable,
                                                  .failed = on_failed};
  struct outbox_options options = {.url = &self->url,
                                   .keys = &self->keys,
                                   .name = "its-name",
                                   .events_maxlen = 10000,
                                   .key_ttl_seconds = key_ttl_seconds,
                                   .hold_bytes = hold_bytes};
  self->outbox = outbox_new(self->loop.base, &self->log, &options, &handler, self);
}

int outbox_owner_set_up(void **state) {
  struct outbox_owner *self = calloc(1, sizeof *self);
  loop_init(&self->loop);
  self->log.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  self->server = fake_redis_new(self->loop.base, false);
  redis_model_init(&self->redis);
  fake_redis_answer_with(self->server, redis_model_answer, &self->redis);
  self->url = fake_redis_url(self->server);
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
  redis_model_release(&self->redis);
  close(self->log.fd);
  loop_release(&self->loop);
  free(self);
  return 0;
}

void outbox_owner_start(struct outbox_owner *self, unsigned long long key_ttl_seconds,
                        size_t hold_bytes) {
  outbox_owner_make(self, key_ttl_seconds, hold_bytes);
  outbox_start(self->outbox);
  assert_true(loop_until(&self->loop, loop_is_counted, &self->ready));
  assert_false(outbox_is_unreachable(self->outbox));
}

void outbox_owner_put_event(struct outbox_owner *self, int number, int length) {
  char *line = malloc((size_t)length + 16);
  int n = sprintf(line, "<%d>%*s", number, length, "");
  struct step_event event = {.kind = STEP_EVENT_STDOUT,
                             .step_id = "s",
                             .step_id_length = 1,
                             .line = line,
                             .line_length = (size_t)n,
                             .timestamp = "2026-05-05T10:00:00.123+00:00",
                             .seq = (uint64_t)number};
  outbox_event(self->outbox, &event);
  free(line);
}

void outbox_owner_put_result(struct outbox_owner *self, const char *payload) {
  struct step_result result = {.step_id = "s", .exit_code = 3};
  struct claimed claimed = {.payload = payload, .length = strlen(payload), .truncated = false};
  outbox_result(self->outbox, NULL, &result, &claimed, true);
}

static bool is_empty(void *context) {
  const struct outbox_owner *self = context;
  return outbox_is_empty(self->outbox);
}

void outbox_owner_delivers(struct outbox_owner *self) {
  outbox_flush(self->outbox);
  assert_true(loop_until(&self->loop, is_empty, self));
}

void outbox_owner_has_done(struct outbox_owner *self, const char *beginnings) {
  const char *done = self->redis.done;
  while (*beginnings != '\0') {
    size_t length = strcspn(beginnings, "\n");
    if (strncmp(done, beginnings, length) != 0)
      fail_msg("expected: %s\ndone: %s", beginnings, done);
    beginnings += length + (beginnings[length] != '\0');
    done += strcspn(done, "\n") + 1;
  }
  assert_string_equal(done, "");
  self->redis.done[0] = '\0';
}
