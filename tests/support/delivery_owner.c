#include "tests/support/delivery_owner.h"

#include "agent/frontends/redis/connection/command.h"
#include "base/loop.h"
#include "tests/support/logged.h"
#include "tests/test.h"

static void count(struct delivery_owner *self, int *counter, const char *callback) {
  ++*counter;
  recorder_add(&self->recorder, callback);
}

static void on_owned(struct delivery_owner *self) {
  count(self, &self->owned, "owned");
  if (self->outbox != NULL)
    outbox_refresh(self->outbox);
}

static void on_delivered(struct delivery_owner *self) {
  count(self, &self->delivered, "delivered");
  if (self->outbox != NULL) {
    self->capacity += outbox_has_capacity_again(self->outbox);
    self->empty += outbox_is_empty(self->outbox);
    return;
  }
  if (self->put_when_delivered != NULL)
    delivery_owner_put(self, self->put_when_delivered);
  self->put_when_delivered = NULL;
}

/* Does what the frontend does in its turn. */
LOOP_CALLBACK(on_turn, struct delivery_owner *self) {
  struct delivery *delivery = self->outbox != NULL ? self->outbox->delivery : self->delivery;
  unsigned notify = delivery_take_notifications(delivery);
  if ((notify & DELIVERY_OWNED) != 0)
    on_owned(self);
  if ((notify & DELIVERY_LOST_DATA) != 0)
    count(self, &self->lost_data, "lost_data");
  if ((notify & DELIVERY_DELIVERED) != 0)
    on_delivered(self);
  self->unreachable += (notify & DELIVERY_UNREACHABLE) != 0;
  if ((notify & DELIVERY_FAILED) != 0) {
    count(self, &self->failed, "failed");
    strcpy(self->error, delivery_error(delivery)->text);
  }
  delivery_flush(delivery);
}

static void on_changed(void *owner) {
  struct delivery_owner *self = owner;
  event_active(self->turn, 0, 0);
}

static const struct delivery_handler handler = {.changed = on_changed};

int delivery_owner_set_up(void **state) {
  struct delivery_owner *self = calloc(1, sizeof *self);
  loop_init(&self->loop);
  self->store = redis_store_new(self->loop.base);
  self->url = redis_store_url(self->store);
  keys_init(&self->keys, "j");
  self->turn = loop_timer_new(self->loop.base, on_turn, self);
  *state = self;
  return 0;
}

int delivery_owner_tear_down(void **state) {
  struct delivery_owner *self = *state;
  if (self->delivery != NULL)
    delivery_free(self->delivery);
  if (self->outbox != NULL)
    outbox_free(self->outbox);
  event_free(self->turn);
  send_queue_free(&self->send_queue);
  keys_release(&self->keys);
  redis_store_free(self->store);
  buffer_release(&self->commands);
  loop_release(&self->loop);
  free(self);
  return 0;
}

void delivery_owner_make(struct delivery_owner *self, unsigned long long key_ttl_seconds) {
  struct delivery_options options = {.url = &self->url, .key_ttl_seconds = key_ttl_seconds};
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

int delivery_owner_connections(const struct delivery_owner *self) {
  return logged_count_in(redis_store_received(self->store, NULL), "$7\r\nSETNAME\r\n");
}

int delivery_owner_checks(const struct delivery_owner *self) {
  return logged_count_in(redis_store_received(self->store, NULL),
                         "$3\r\nGET\r\n$19\r\nsandbox:j:committed\r\n");
}

int delivery_owner_done(const struct delivery_owner *self, const char *text) {
  return logged_count_in(redis_store_executed(self->store), text);
}

int delivery_owner_transactions(const struct delivery_owner *self) {
  return delivery_owner_done(self, "out EXEC\n");
}

void delivery_owner_deliver(struct delivery_owner *self, const char *text) {
  int delivered = self->delivered;
  delivery_owner_send(self, text);
  loop_await(&self->loop, &self->delivered, delivered + 1);
}

void delivery_owner_lose(struct delivery_owner *self, const char *text, bool done) {
  int probes = delivery_owner_checks(self), delivered = self->delivered;
  redis_store_inject(self->store, (struct redis_store_fault){.command = "LPUSH",
                                                             .effect = done ? REDIS_STORE_MUTES
                                                                            : REDIS_STORE_HOLDS,
                                                             .times = 1});
  delivery_owner_send(self, text);
  LOOP_UNTIL(&self->loop, delivery_owner_checks(self) > probes);
  loop_settle(&self->loop);
  assert_int_equal(self->delivered, delivered);
  redis_store_lose(self->store, "out", false);
}

/* Returns the end of the last occurrence of the text before `end`. */
static const char *after_last(const char *bytes, const char *end, const char *text) {
  const char *last = NULL;
  while ((bytes = strstr(bytes, text)) != NULL && bytes < end)
    last = bytes += strlen(text);
  assert_non_null(last);
  return last;
}

const char *delivery_owner_last_transaction(const struct delivery_owner *self) {
  size_t length;
  const char *bytes = redis_store_received(self->store, &length);
  const char *end = after_last(bytes, bytes + length, "*1\r\n$4\r\nEXEC\r\n");
  return after_last(bytes, end, "*1\r\n$5\r\nMULTI\r\n");
}

const char *delivery_owner_commands(struct delivery_owner *self) {
  size_t length;
  const char *at = redis_store_received(self->store, &length), *end = at + length;
  struct command_word words[10];
  self->commands.length = 0;
  while (command_read(&at, end, words, 10)) {
    for (size_t i = 0; i < 10 && words[i].text != NULL; i++) {
      buffer_add_string(&self->commands, i > 0 ? " " : "");
      buffer_add(&self->commands, words[i].text, words[i].length);
    }
    buffer_add_string(&self->commands, "\n");
  }
  buffer_add(&self->commands, "", 1);
  return self->commands.bytes;
}

const char *delivery_owner_last_commands(struct delivery_owner *self, size_t count) {
  const char *text = delivery_owner_commands(self), *at = text + strlen(text);
  for (; count > 0; count--)
    for (at--; at > text && at[-1] != '\n';)
      at--;
  return at;
}

void delivery_owner_start_outbox(struct delivery_owner *self, unsigned long long key_ttl_seconds,
                                 size_t hold_bytes) {
  struct delivery_options options = {.url = &self->url,
                                     .events_maxlen = 10000,
                                     .key_ttl_seconds = key_ttl_seconds,
                                     .hold_bytes = hold_bytes};
  self->outbox =
      outbox_new(self->loop.base, &self->loop.log, &options, &self->keys, &handler, self);
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
  outbox_add_event(self->outbox, &event);
  free(line);
}

void delivery_owner_put_result(struct delivery_owner *self, const char *payload) {
  struct step_result result = {.schema_version = 1, .step_id = "s", .exit_code = 3};
  struct outbox_record record = {.result = &result,
                                 .changes = {{.kind = OUTBOX_REMOVE_OLDEST,
                                              .list = OUTBOX_INFLIGHT,
                                              .value = {payload, strlen(payload), false}}},
                                 .change_count = 1,
                                 .ends_started = true};
  outbox_write(self->outbox, &record);
}

void delivery_owner_drain(struct delivery_owner *self) {
  outbox_flush(self->outbox);
  LOOP_UNTIL(&self->loop, self->outbox->send_queue.bytes == 0);
}

void delivery_owner_expect_executed(struct delivery_owner *self, const char *beginnings) {
  const char *done = redis_store_executed(self->store);
  while (*beginnings != '\0') {
    size_t length = strcspn(beginnings, "\n");
    if (strncmp(done, "out ", 4) != 0 || strncmp(done + 4, beginnings, length) != 0)
      fail_msg("expected: %s\ndone: %s", beginnings, done);
    beginnings += length + (beginnings[length] != '\0');
    done += strcspn(done, "\n") + 1;
  }
  assert_string_equal(done, "");
  redis_store_forget_executed(self->store);
}
