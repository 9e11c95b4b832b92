#include "tests/support/ahead.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEY "sandbox:j:"
#define COMMITTED KEY "committed"

void ahead_put(struct delivery_owner *owner, int number, size_t length) {
  char *text = malloc(length + 1);
  assert_non_null(text);
  memset(text, 'x', length);
  text[snprintf(text, length, "%d-", number)] = 'x';
  text[length] = '\0';
  delivery_owner_put(owner, text);
  free(text);
}

void ahead_put_records(struct delivery_owner *owner, int from, int to) {
  for (int number = from; number <= to; number++)
    ahead_put(owner, number, AHEAD_RECORD);
  delivery_owner_flush(owner);
}

void ahead_send_first(struct delivery_owner *owner) {
  int probes = owner->redis.probes;
  ahead_put(owner, 0, 10);
  delivery_owner_flush(owner);
  delivery_owner_await(owner, &owner->redis.probes, probes + 1);
  loop_settle(&owner->loop);
}

static const char *last_command(const struct delivery_owner *owner) {
  return fake_redis_command(owner->server, fake_redis_commands(owner->server) - 1);
}

bool ahead_is_last(void *context) {
  const char *command = last_command(context);
  return strncmp(command, "SET " COMMITTED " ", strlen("SET " COMMITTED " ")) == 0;
}

void ahead_await(struct delivery_owner *owner, int number) {
  assert_true(loop_until(&owner->loop, ahead_is_last, owner));
  loop_settle(&owner->loop);
  assert_true(ahead_is_last(owner));
  assert_int_equal(atoi(strrchr(last_command(owner), ':') + 1), number);
}

void ahead_go(struct delivery_owner *owner) {
  owner->redis.silent_from = "EXEC";
  ahead_send_first(owner);
  ahead_put_records(owner, 1, AHEAD_MORE);
  ahead_await(owner, 3); /* after the ownership transaction and number 0 */
}

void ahead_start(struct delivery_owner *owner) {
  delivery_owner_start(owner);
  ahead_go(owner);
  assert_int_equal(owner->redis.executed, 2);
  assert_int_equal(owner->delivered, 0);
}

void ahead_let_reply(struct delivery_owner *owner) {
  owner->redis.silent_from = NULL;
  delivery_owner_let_reply(owner);
}

static bool is_all_delivered(void *context) {
  const struct delivery_owner *owner = context;
  return owner->send_queue.bytes == 0;
}

void ahead_all_is_done(struct delivery_owner *owner, int from, int to) {
  assert_true(loop_until(&owner->loop, is_all_delivered, owner));
  const char *before = owner->redis.done;
  for (int number = from; number <= to; number++) {
    char text[64];
    snprintf(text, sizeof text, "LPUSH " KEY "results %d-x", number);
    assert_int_equal(delivery_owner_done(owner, text), 1);
    const char *found = strstr(owner->redis.done, text);
    assert_true(found > before);
    before = found;
  }
}
