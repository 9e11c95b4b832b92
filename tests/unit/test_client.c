#include "agent/doors/redis/net/reply_parser.h"
#include "tests/support/client_owner.h"
#include "tests/test.h"

static bool three_replies(void *context) {
  return ((const struct client_owner *)context)->replies == 3;
}

TEST(replies_come_in_order_however_they_are_cut, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  static const char replies[] = "+one\r\n$3\r\ntwo\r\n*2\r\n$3\r\nkey\r\n$5\r\nthree\r\n";
  client_owner_start(owner, SIZE_MAX);
  client_owner_comes_up(owner);
  fake_redis_send(owner->server, replies);
  assert_true(loop_until(&owner->loop, three_replies, owner));
  assert_string_equal(owner->text, "one two three ");
  owner->replies = 0;
  owner->text[0] = '\0';
  fake_redis_send_slowly(owner->server, replies);
  assert_true(loop_until(&owner->loop, three_replies, owner));
  assert_string_equal(owner->text, "one two three ");
}

TEST(comes_back_when_closed_in_a_reply, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  client_owner_start(owner, SIZE_MAX);
  client_owner_comes_up(owner);
  fake_redis_send(owner->server, "+one\r\n*2\r\n$3\r\nke");
  loop_settle(&owner->loop);
  fake_redis_close_connection(owner->server);
  client_owner_comes_back(owner);
  fake_redis_send(owner->server, "+two\r\n$5\r\nthree\r\n"); /* nothing of the old is left */
  assert_true(loop_until(&owner->loop, three_replies, owner));
  assert_string_equal(owner->text, "one two three ");
}

TEST(comes_back_from_what_is_not_the_protocol, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  client_owner_start(owner, SIZE_MAX);
  client_owner_comes_up(owner);
  fake_redis_send(owner->server, "HTTP/1.1 400 Bad Request\r\n");
  client_owner_comes_back(owner);
}

TEST(comes_back_when_an_answer_is_late, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  client_owner_start(owner, SIZE_MAX);
  client_owner_comes_up(owner);
  client_expect(owner->client, 1);
  client_expect(owner->client, 0); /* none is due any more */
  fake_redis_send(owner->server, "+a\r\n+b\r\n+c\r\n");
  assert_true(loop_until(&owner->loop, three_replies, owner));
  assert_int_equal(owner->down, 0);
  client_expect(owner->client, 50);
  client_owner_comes_back(owner);
}

TEST(the_owner_may_drop_it_in_a_reply, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  owner->drop_at = "two";
  client_owner_start(owner, SIZE_MAX);
  client_owner_comes_up(owner);
  fake_redis_send(owner->server, "+one\r\n+two\r\n+never\r\n");
  client_owner_comes_back(owner);
  assert_string_equal(owner->text, "one two ");
}

TEST(the_owner_may_stop_it_in_a_reply, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  owner->stop_at = "two";
  client_owner_start(owner, SIZE_MAX);
  client_owner_comes_up(owner);
  fake_redis_send(owner->server, "+one\r\n+two\r\n+never\r\n");
  while (fake_redis_is_connected(owner->server))
    event_base_loop(owner->loop.base, EVLOOP_ONCE);
  loop_settle(&owner->loop);
  assert_string_equal(owner->text, "one two ");
  assert_int_equal(owner->down + owner->failed, 0);
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

/* [key, a string of `length` bytes], but for the last `missing` ones of them. */
static const char *cut_answer(char *out, int length, int missing) {
  int head = sprintf(out, "*2\r\n$3\r\nkey\r\n$%d\r\n", length);
  memset(out + head, 'x', (size_t)(length - missing));
  out[head + length - missing] = '\0';
  return out;
}

TEST(a_string_that_is_too_large_is_thrown_away, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  char part[8000];
  client_owner_start(owner, 5000);
  client_owner_comes_up(owner);
  fake_redis_send(owner->server, cut_answer(part, 6000, 2));
  loop_settle(&owner->loop);
  assert_int_equal(owner->replies, 0); /* an answer counts when all of it came */
  fake_redis_send_slowly(owner->server, "yz\r\n+one\r\n*2\r\n$3\r\nkey\r\n$10\r\n1234567890\r\n");
  assert_true(loop_until(&owner->loop, three_replies, owner));
  assert_int_equal(owner->too_large, 1);
  assert_int_equal(strspn(owner->text, "x"), REPLY_PARSER_BEGINNING);
  assert_string_equal(owner->text + REPLY_PARSER_BEGINNING, " one 1234567890 ");
}

TEST(a_large_string_may_be_cut_off, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  char part[8000];
  client_owner_start(owner, 100000);
  client_owner_comes_up(owner);
  fake_redis_send(owner->server, cut_answer(part, 1000000, 1000000 - 5000));
  loop_settle(&owner->loop);
  fake_redis_close_connection(owner->server);
  client_owner_comes_back(owner);
  fake_redis_send(owner->server, "+one\r\n+two\r\n+three\r\n");
  assert_true(loop_until(&owner->loop, three_replies, owner));
  assert_string_equal(owner->text, "one two three ");
}

TEST(what_does_not_fit_is_told_and_can_follow, client_owner_set_up, client_owner_tear_down) {
  static char much[3000000];
  struct client_owner *owner = *state;
  client_owner_start(owner, SIZE_MAX);
  client_owner_comes_up(owner);
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
  assert_int_equal(owner->writable, 0);
  fake_redis_read_on(owner->server);
  while (sent < length) {
    owner->writable = 0;
    assert_true(loop_until(&owner->loop, loop_is_counted, &owner->writable));
    struct iovec rest = {.iov_base = much + sent, .iov_len = length - sent};
    sent += client_write(owner->client, &rest, 1);
  }
  while (fake_redis_commands(owner->server) < 2)
    event_base_loop(owner->loop.base, EVLOOP_ONCE);
  assert_int_equal(strlen(fake_redis_command(owner->server, 1)), sizeof much - 100);
}

TEST(writing_to_a_closed_connection_is_harmless, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  client_owner_start(owner, SIZE_MAX);
  struct iovec piece = {.iov_base = "*1\r\n$4\r\nPING\r\n", .iov_len = 14};
  assert_int_equal(client_write(owner->client, &piece, 1), 0); /* not up yet */
  client_owner_comes_up(owner);
  fake_redis_close_connection(owner->server);
  assert_int_equal(client_write(owner->client, &piece, 1), 0);
  assert_int_equal(owner->down, 0); /* never from inside */
  client_owner_comes_back(owner);
}

static bool refused_often(void *context) {
  const struct client_owner *owner = context;
  return client_owner_logged(owner, "(attempt 6)") > 0;
}

TEST(after_the_first_success_it_never_gives_up, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  owner->log.least = LOG_DEBUG;
  client_owner_start(owner, SIZE_MAX);
  client_owner_comes_up(owner);
  fake_redis_refuse(owner->server);
  fake_redis_close_connection(owner->server);
  assert_true(loop_until(&owner->loop, refused_often, owner));
  fake_redis_accept(owner->server);
  client_owner_comes_back(owner);
}

TEST(a_password_that_was_changed_is_told, client_owner_set_up, client_owner_tear_down) {
  struct client_owner *owner = *state;
  char password[] = "secret";
  owner->url.password = password;
  client_owner_start(owner, SIZE_MAX);
  client_owner_comes_up(owner);
  owner->handshake_answers[0] = "-WRONGPASS invalid\r\n";
  owner->answered = 0;
  fake_redis_close_connection(owner->server);
  client_owner_fails(owner);
  assert_int_equal(owner->down, 1);
}
