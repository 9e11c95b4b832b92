/* A client that is ready: its bytes, and how it reconnects. */

#include "agent/doors/redis/net/reply_parser.h"
#include "tests/support/client_owner.h"
#include "tests/test.h"

CLIENT_TEST(replies_come_in_order_however_they_are_cut) {
  static const char replies[] = "+one\r\n$3\r\ntwo\r\n*2\r\n$3\r\nkey\r\n$5\r\nthree\r\n";
  fake_redis_send(owner->server, replies);
  client_owner_expect(owner, "connected ready one two three");
  fake_redis_send_slowly(owner->server, replies);
  client_owner_expect(owner, "connected ready one two three one two three");
}

CLIENT_TEST(it_reconnects_when_it_is_closed_in_a_reply) {
  fake_redis_send(owner->server, "+one\r\n*2\r\n$3\r\nke");
  loop_settle(&owner->loop);
  fake_redis_close_connection(owner->server);
  client_owner_expect(owner, "connected ready one lost connected ready");
  fake_redis_send(owner->server, "+two\r\n$5\r\nthree\r\n"); /* nothing of the old reply is left */
  client_owner_expect(owner, "connected ready one lost connected ready two three");
  assert_int_equal(fake_redis_connections(owner->server), 2);
}

CLIENT_TEST(it_reconnects_after_a_protocol_error) {
  fake_redis_send(owner->server, "HTTP/1.1 400 Bad Request\r\n");
  client_owner_expect(owner, "connected ready lost connected ready");
}

CLIENT_TEST(it_reconnects_when_a_reply_is_late) {
  client_set_reply_timeout(owner->client, 1);
  client_set_reply_timeout(owner->client, 0); /* none is due any more */
  fake_redis_send(owner->server, "+a\r\n+b\r\n+c\r\n");
  client_owner_expect(owner, "connected ready a b c");
  client_set_reply_timeout(owner->client, 50);
  client_owner_expect(owner, "connected ready a b c lost connected ready");
}

CLIENT_TEST(the_owner_may_drop_it_in_a_reply) {
  owner->drop_at = "two";
  fake_redis_send(owner->server, "+one\r\n+two\r\n+never\r\n");
  client_owner_expect(owner, "connected ready one two lost connected ready");
}

CLIENT_TEST(the_owner_may_stop_it_in_a_reply) {
  owner->stop_at = "two";
  fake_redis_send(owner->server, "+one\r\n+two\r\n+never\r\n");
  while (fake_redis_is_connected(owner->server))
    event_base_loop(owner->loop.base, EVLOOP_ONCE);
  client_owner_expect(owner, "connected ready one two");
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

/* [key, a string of `length` bytes], without the last `missing` ones. */
static const char *cut_reply(char *out, int length, int missing) {
  int head = sprintf(out, "*2\r\n$3\r\nkey\r\n$%d\r\n", length);
  memset(out + head, 'x', (size_t)(length - missing));
  out[head + length - missing] = '\0';
  return out;
}

NEW_CLIENT_TEST(a_string_that_is_too_large_is_discarded) {
  char part[8000];
  client_owner_start(owner, 5000);
  client_owner_expect(owner, "connected ready");
  fake_redis_send(owner->server, cut_reply(part, 6000, 2));
  client_owner_expect(owner, "connected ready"); /* a reply counts when all of it came */
  fake_redis_send_slowly(owner->server, "yz\r\n+one\r\n*2\r\n$3\r\nkey\r\n$10\r\n1234567890\r\n");
  client_owner_expect(owner, "connected ready too_large bytes:4096 one 1234567890");
}

NEW_CLIENT_TEST(a_large_string_may_be_cut_off) {
  char part[8000];
  client_owner_start(owner, 100000);
  client_owner_expect(owner, "connected ready");
  fake_redis_send(owner->server, cut_reply(part, 1000000, 1000000 - 5000));
  loop_settle(&owner->loop);
  fake_redis_close_connection(owner->server);
  client_owner_expect(owner, "connected ready lost connected ready");
  fake_redis_send(owner->server, "+one\r\n+two\r\n");
  client_owner_expect(owner, "connected ready lost connected ready one two");
}

CLIENT_TEST(writable_follows_a_write_that_took_less) {
  static char much[3000000];
  int head = snprintf(much, sizeof much, "*1\r\n$%zu\r\n", sizeof much - 100);
  memset(much + head, 'x', sizeof much - 100);
  size_t length = (size_t)head + sizeof much - 100;
  memcpy(much + length, "\r\n", 2);
  length += 2;
  fake_redis_stop_reading(owner->server);
  size_t sent = 0;
  for (int writes = 0; writes < 2; writes++) {
    struct iovec pieces[] = {{.iov_base = much + sent, .iov_len = (length - sent) / 2},
                             {.iov_base = much + sent + (length - sent) / 2,
                              .iov_len = length - sent - (length - sent) / 2}};
    sent += client_write(owner->client, pieces, 2);
    assert_true(sent > 0 && sent < length);
  }
  assert_string_equal(recorder_text(&owner->recorder), "connected ready");
  fake_redis_read_on(owner->server);
  while (sent < length) {
    recorder_reset(&owner->recorder);
    assert_true(recorder_await(&owner->loop, &owner->recorder, "writable", 1));
    struct iovec rest = {.iov_base = much + sent, .iov_len = length - sent};
    sent += client_write(owner->client, &rest, 1);
  }
  while (fake_redis_commands(owner->server) < 2)
    event_base_loop(owner->loop.base, EVLOOP_ONCE);
  assert_int_equal(strlen(fake_redis_command(owner->server, 1)), sizeof much - 100);
}

NEW_CLIENT_TEST(writing_to_a_closed_connection_is_harmless) {
  client_owner_start(owner, SIZE_MAX);
  struct iovec piece = {.iov_base = "*1\r\n$4\r\nPING\r\n", .iov_len = 14};
  assert_int_equal(client_write(owner->client, &piece, 1), 0); /* not ready yet */
  client_owner_expect(owner, "connected ready");
  fake_redis_close_connection(owner->server);
  assert_int_equal(client_write(owner->client, &piece, 1), 0);
  assert_string_equal(recorder_text(&owner->recorder), "connected ready"); /* not from inside */
  client_owner_expect(owner, "connected ready lost connected ready");
}

CLIENT_TEST(after_the_first_success_it_never_gives_up) {
  fake_redis_refuse(owner->server);
  fake_redis_close_connection(owner->server);
  client_owner_expect(owner, "connected ready lost unreachable unreachable unreachable unreachable "
                             "unreachable unreachable");
  assert_true(client_is_unreachable(owner->client));
  fake_redis_accept(owner->server);
  assert_true(recorder_await(&owner->loop, &owner->recorder, "ready", 2));
  assert_int_equal(recorder_count(&owner->recorder, "failed"), 0);
  assert_false(client_is_unreachable(owner->client));
}

NEW_CLIENT_TEST(a_password_that_was_changed_is_an_error) {
  char password[] = "secret";
  owner->url.password = password;
  client_owner_becomes_ready(owner);
  owner->handshake_answers[0] = "-WRONGPASS invalid\r\n";
  fake_redis_close_connection(owner->server);
  client_owner_expect(owner, "connected ready lost connected failed");
}
