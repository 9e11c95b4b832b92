#include "tests/support/delivery_owner.h"

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

#include "agent/doors/redis/net/command.h"

static void record(struct delivery_owner *self, const char *word) {
  size_t length = strlen(self->transcript);
  snprintf(self->transcript + length, sizeof self->transcript - length, "%s%s",
           length > 0 ? " " : "", word);
}

static void on_connected(void *owner) {
  ((struct delivery_owner *)owner)->connected++;
}

static void on_owned(void *owner) {
  struct delivery_owner *self = owner;
  self->owned++;
  record(self, "owned");
}

static void on_delivered(void *owner) {
  struct delivery_owner *self = owner;
  self->delivered++;
  record(self, "delivered");
  if (self->put_when_delivered != NULL)
    delivery_owner_put(self, self->put_when_delivered);
  self->put_when_delivered = NULL;
  delivery_flush(self->delivery);
}

static void on_lost_data(void *owner) {
  struct delivery_owner *self = owner;
  self->lost_data++;
  record(self, "lost_data");
}

static void on_unreachable(void *owner) {
  struct delivery_owner *self = owner;
  self->unreachable++;
}

static void on_failed(void *owner, const struct error *error) {
  struct delivery_owner *self = owner;
  self->failed++;
  record(self, "failed");
  strcpy(self->error, error->text);
}

int delivery_owner_set_up(void **state) {
  struct delivery_owner *self = calloc(1, sizeof *self);
  loop_init(&self->loop);
  self->log = (struct log){.least = LOG_INFO, .fd = memfd_create("log", MFD_CLOEXEC)};
  self->server = fake_redis_new(self->loop.base, false);
  redis_model_init(&self->redis);
  fake_redis_answer_with(self->server, redis_model_answer, &self->redis);
  self->url = fake_redis_url(self->server);
  keys_init(&self->keys, "j");
  send_queue_init(&self->send_queue);
  *state = self;
  return 0;
}

int delivery_owner_tear_down(void **state) {
  struct delivery_owner *self = *state;
  if (self->delivery != NULL)
    delivery_free(self->delivery);
  send_queue_free(&self->send_queue);
  keys_release(&self->keys);
  fake_redis_free(self->server);
  redis_model_release(&self->redis);
  close(self->log.fd);
  loop_release(&self->loop);
  free(self);
  return 0;
}

void delivery_owner_make(struct delivery_owner *self, unsigned long long key_ttl_seconds) {
  static const struct delivery_handler handler = {.connected = on_connected,
                                                  .owned = on_owned,
                                                  .delivered = on_delivered,
                                                  .lost_data = on_lost_data,
                                                  .unreachable = on_unreachable,
                                                  .failed = on_failed};
  struct delivery_options options = {.url = &self->url,
                                     .keys = &self->keys,
                                     .name = "its-name",
                                     .key_ttl_seconds = key_ttl_seconds};
  self->delivery =
      delivery_new(self->loop.base, &self->log, &options, &self->send_queue, &handler, self);
  delivery_start(self->delivery);
}

void delivery_owner_start(struct delivery_owner *self) {
  delivery_owner_make(self, 0);
  delivery_owner_await(self, &self->owned, 1);
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

struct number {
  const int *number;
  int value;
};

static bool is_reached(void *context) {
  const struct number *number = context;
  return *number->number >= number->value;
}

void delivery_owner_await(struct delivery_owner *self, const int *number, int value) {
  struct number awaited = {.number = number, .value = value};
  assert_true(loop_until(&self->loop, is_reached, &awaited));
}

static int count(const char *text, const char *part) {
  int found = 0;
  while ((text = strstr(text, part)) != NULL) {
    found++;
    text += strlen(part);
  }
  return found;
}

int delivery_owner_logged(const struct delivery_owner *self, const char *text) {
  char log[16384] = "";
  assert_true(pread(self->log.fd, log, sizeof log - 1, 0) >= 0);
  return count(log, text);
}

int delivery_owner_done(const struct delivery_owner *self, const char *text) {
  return count(self->redis.done, text);
}

void delivery_owner_deliver(struct delivery_owner *self, const char *text) {
  int delivered = self->delivered;
  delivery_owner_put(self, text);
  delivery_owner_flush(self);
  delivery_owner_await(self, &self->delivered, delivered + 1);
}

void delivery_owner_lose(struct delivery_owner *self, const char *text, bool done) {
  int probes = self->redis.probes, delivered = self->delivered;
  *(done ? &self->redis.silent_from : &self->redis.deaf_from) = "MULTI";
  delivery_owner_put(self, text);
  delivery_owner_flush(self);
  delivery_owner_await(self, &self->redis.probes, probes + 1);
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

static const char *last_transactions(const struct delivery_owner *self, bool two) {
  size_t length;
  const char *bytes = fake_redis_bytes(self->server, &length), *last = NULL, *before = NULL;
  while ((bytes = strstr(bytes, "*1\r\n$5\r\nMULTI\r\n")) != NULL) {
    before = last;
    last = bytes++;
  }
  const char *transactions = two ? before : last;
  assert_non_null(transactions);
  return transactions;
}

const char *delivery_owner_last_transaction(const struct delivery_owner *self) {
  return last_transactions(self, false);
}

const char *delivery_owner_last_two_transactions(const struct delivery_owner *self) {
  return last_transactions(self, true);
}

const char *delivery_owner_last_commands(const struct delivery_owner *self, size_t count) {
  static char text[4096];
  size_t all = fake_redis_commands(self->server);
  text[0] = '\0';
  for (size_t i = all - count; i < all; i++)
    strcat(strcat(text, fake_redis_command(self->server, i)), "\n");
  return text;
}
