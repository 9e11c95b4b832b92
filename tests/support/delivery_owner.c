#include "tests/support/delivery_owner.h"

#include <unistd.h>

#include "agent/doors/redis/door.h"
#include "agent/doors/redis/link/command.h"
#include "tests/support/logged.h"
#include "tests/test.h"

static void count(struct delivery_owner *self, int *counter, const char *callback) {
  ++*counter;
  recorder_add(&self->recorder, callback);
}

static void on_connected(void *owner) {
  (void)owner;
}

static void on_owned(void *owner) {
  struct delivery_owner *self = owner;
  count(self, &self->owned, "owned");
  if (self->outbox != NULL)
    outbox_refresh(self->outbox);
}

static void on_delivered(void *owner) {
  struct delivery_owner *self = owner;
  count(self, &self->delivered, "delivered");
  if (self->outbox != NULL) {
    self->room += outbox_has_room_again(self->outbox);
    self->empty += outbox_is_empty(self->outbox);
    return;
  }
  if (self->put_when_delivered != NULL)
    delivery_owner_put(self, self->put_when_delivered);
  self->put_when_delivered = NULL;
  delivery_flush(self->delivery);
}

static void on_lost_data(void *owner) {
  struct delivery_owner *self = owner;
  count(self, &self->lost_data, "lost_data");
}

static void on_unreachable(void *owner) {
  ((struct delivery_owner *)owner)->unreachable++;
}

static void on_failed(void *owner, const struct error *error) {
  struct delivery_owner *self = owner;
  count(self, &self->failed, "failed");
  strcpy(self->error, error->text);
}

static const struct delivery_handler handler = {.connected = on_connected,
                                                .owned = on_owned,
                                                .delivered = on_delivered,
                                                .lost_data = on_lost_data,
                                                .unreachable = on_unreachable,
                                                .failed = on_failed};

int delivery_owner_set_up(void **state) {
  struct delivery_owner *self = calloc(1, sizeof *self);
  loop_init(&self->loop);
  self->server = fake_redis_new(self->loop.base, false);
  redis_model_init(&self->redis);
  fake_redis_answer_with(self->server, redis_model_answer, &self->redis);
  self->url = fake_redis_url(self->server);
  keys_init(&self->keys, "j");
  *state = self;
  return 0;
}

int delivery_owner_tear_down(void **state) {
  struct delivery_owner *self = *state;
  if (self->delivery != NULL)
    delivery_free(self->delivery);
  if (self->outbox != NULL)
    outbox_free(self->outbox);
  send_queue_free(&self->send_queue);
  keys_release(&self->keys);
  fake_redis_free(self->server);
  redis_model_release(&self->redis);
  loop_release(&self->loop);
  free(self);
  return 0;
}

void delivery_owner_make(struct delivery_owner *self, unsigned long long key_ttl_seconds) {
  struct redis_door_options options = {.url = &self->url, .key_ttl_seconds = key_ttl_seconds};
  self->delivery = delivery_new(self->loop.base, &self->loop.log, &options, &self->keys,
                                &self->send_queue, &handler, self);
  delivery_start(self->delivery);
}

void delivery_owner_start(struct delivery_owner *self) {
  delivery_owner_make(self, 0);
  loop_await(&self->loop, &self->owned, 1);
}

int delivery_owner_set_up_owning(void **state) {
  delivery_owner_set_up(state);
  delivery_owner_start(*state);
  return 0;
}

void delivery_owner_put(struct delivery_owner *self, const char *text) {
  const struct command_word words[] = {command_word("LPUSH"), command_word(self->keys.results),
                                       command_word(text)};
  (void)command_write(send_queue_reserve(&self->send_queue, command_length(words, 3)), words, 3);
  send_queue_commit(&self->send_queue, 1);
}

void delivery_owner_flush(struct delivery_owner *self) {
  delivery_flush(self->delivery);
}

void delivery_owner_send(struct delivery_owner *self, const char *text) {
  delivery_owner_put(self, text);
  delivery_owner_flush(self);
}

void delivery_owner_expect(const struct delivery_owner *self, const char *callbacks) {
  assert_string_equal(recorder_text(&self->recorder), callbacks);
}

int delivery_owner_done(const struct delivery_owner *self, const char *text) {
  return logged_count_in(self->redis.done, text);
}

void delivery_owner_deliver(struct delivery_owner *self, const char *text) {
  int delivered = self->delivered;
  delivery_owner_send(self, text);
  loop_await(&self->loop, &self->delivered, delivered + 1);
}

void delivery_owner_lose(struct delivery_owner *self, const char *text, bool done) {
  int probes = self->redis.probes, delivered = self->delivered;
  *(done ? &self->redis.silent_from : &self->redis.deaf_from) = "LPUSH";
  delivery_owner_send(self, text);
  loop_await(&self->loop, &self->redis.probes, probes + 1);
  loop_settle(&self->loop);
  assert_int_equal(self->delivered, delivered);
  self->redis.silent_from = self->redis.deaf_from = NULL;
  fake_redis_close_connection(self->server);
}

void delivery_owner_let_reply(struct delivery_owner *self) {
  self->redis.silent = false;
  fake_redis_send(self->server, self->redis.unanswered);
  self->redis.unanswered[0] = '\0';
}

/* The last place before `end` where the text ends. */
static const char *after_last(const char *bytes, const char *end, const char *text) {
  const char *last = NULL;
  while ((bytes = strstr(bytes, text)) != NULL && bytes < end)
    last = bytes += strlen(text);
  assert_non_null(last);
  return last;
}

const char *delivery_owner_last_transaction(const struct delivery_owner *self) {
  size_t length;
  const char *bytes = fake_redis_bytes(self->server, &length);
  const char *end = after_last(bytes, bytes + length, "*1\r\n$4\r\nEXEC\r\n");
  return after_last(bytes, end, "*1\r\n$5\r\nMULTI\r\n");
}

const char *delivery_owner_last_commands(const struct delivery_owner *self, size_t count) {
  static char text[4096];
  size_t all = fake_redis_commands(self->server);
  text[0] = '\0';
  for (size_t i = all - count; i < all; i++)
    strcat(strcat(text, fake_redis_command(self->server, i)), "\n");
  return text;
}

void delivery_owner_make_outbox(struct delivery_owner *self, unsigned long long key_ttl_seconds,
                                size_t hold_bytes) {
  struct redis_door_options options = {.url = &self->url,
                                       .events_maxlen = 10000,
                                       .key_ttl_seconds = key_ttl_seconds,
                                       .hold_bytes = hold_bytes};
  self->outbox =
      outbox_new(self->loop.base, &self->loop.log, &options, &self->keys, &handler, self);
}

void delivery_owner_start_outbox(struct delivery_owner *self, unsigned long long key_ttl_seconds,
                                 size_t hold_bytes) {
  delivery_owner_make_outbox(self, key_ttl_seconds, hold_bytes);
  delivery_start(self->outbox->delivery);
  loop_await(&self->loop, &self->owned, 1);
  assert_false(delivery_is_unreachable(self->outbox->delivery));
}

void delivery_owner_put_event(struct delivery_owner *self, int number, int length) {
  char *line = malloc((size_t)length + 16);
  int n = sprintf(line, "<%d>%*s", number, length, "");
  struct step_event event = {.schema_version = 1,
                             .kind = STEP_EVENT_STDOUT,
                             .step_id = "s",
                             .step_id_length = 1,
                             .line = line,
                             .line_length = (size_t)n,
                             .timestamp = "2026-05-05T10:00:00.123+00:00",
                             .seq = (uint64_t)number};
  outbox_event(self->outbox, &event);
  free(line);
}

void delivery_owner_put_result(struct delivery_owner *self, const char *payload) {
  struct step_result result = {.schema_version = 1, .step_id = "s", .exit_code = 3};
  struct claimed claimed = {.payload = payload, .length = strlen(payload), .truncated = false};
  outbox_result(self->outbox, NULL, &result, &claimed, true);
}

void delivery_owner_drain(struct delivery_owner *self) {
  outbox_flush(self->outbox);
  LOOP_UNTIL(&self->loop, outbox_is_empty(self->outbox));
}

void delivery_owner_has_done(struct delivery_owner *self, const char *beginnings) {
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
