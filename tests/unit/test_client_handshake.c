/* How a client becomes ready: its handshake, and what it does when that fails. */

#include "agent/doors/redis/client/backoff.h"
#include "tests/support/client_owner.h"
#include "tests/support/wait.h"
#include "tests/test.h"

CLIENT_TEST(the_handshake_sends_a_name) {
  assert_string_equal(fake_redis_command(owner->server, 0), "CLIENT SETNAME its-name");
  assert_int_equal(fake_redis_commands(owner->server), 1);
}

NEW_CLIENT_TEST(the_handshake_sends_all_that_the_url_has) {
  char user[] = "me";
  char password[] = "se cret";
  owner->url.user = user;
  owner->url.password = password;
  owner->url.database = 3;
  client_owner_becomes_ready(owner);
  assert_string_equal(fake_redis_command(owner->server, 0), "AUTH me se cret");
  assert_string_equal(fake_redis_command(owner->server, 1), "CLIENT SETNAME its-name");
  assert_string_equal(fake_redis_command(owner->server, 2), "SELECT 3");
}

/* A server that does not know AUTH (renamed, say) repeats its arguments. */
NEW_CLIENT_TEST(a_password_that_the_server_repeats_is_not_shown) {
  static const char *const answers[] = {
      "-ERR unknown command 'AUTH', with args beginning with: 'me' 'hunter2' \r\n",
      "-ERR what is this hunter2 of me\r\n", "-WRONGPASS 'hunter2' is wrong\r\n"};
  char user[] = "me";
  char password[] = "hunter2";
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    owner->url.user = user;
    owner->url.password = password;
    owner->handshake_answers[0] = answers[i];
    client_owner_start(owner, SIZE_MAX);
    client_owner_expect(owner, "connected failed");
    assert_non_null(strstr(owner->error, "AUTH: "));
    assert_null(strstr(owner->error, "hunter2"));
    client_free(owner->client);
    owner->client = NULL;
  }
}

NEW_CLIENT_TEST(it_is_ready_only_after_the_last_reply) {
  char password[] = "secret";
  owner->url.password = password;
  owner->handshake_answers[1] = NULL;
  client_owner_start(owner, SIZE_MAX);
  while (fake_redis_commands(owner->server) < 2)
    event_base_loop(owner->loop.base, EVLOOP_ONCE);
  client_owner_expect(owner, "connected");
  struct iovec early = {.iov_base = "*1\r\n$4\r\nPING\r\n", .iov_len = 14};
  assert_int_equal(client_write(owner->client, &early, 1), 0);
  client_set_reply_timeout(owner->client, 1); /* nor can the owner set the handshake's time */
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), 2);
  assert_string_equal(fake_redis_command(owner->server, 0), "AUTH secret");
  fake_redis_send_slowly(owner->server, "+OK\r\n");
  client_owner_expect(owner, "connected ready");
}

NEW_CLIENT_TEST(a_handshake_may_be_more_than_the_socket_takes) {
  enum { LONG = 2000000 };
  static char password[LONG + 1];
  memset(password, 'x', LONG);
  owner->url.password = password;
  client_owner_becomes_ready(owner);
  assert_int_equal(strlen(fake_redis_command(owner->server, 0)), strlen("AUTH ") + LONG);
  assert_string_equal(fake_redis_command(owner->server, 1), "CLIENT SETNAME its-name");
}

NEW_CLIENT_TEST(it_finds_a_server_by_address_and_by_name) {
  fake_redis_free(owner->server);
  owner->server = fake_redis_new(owner->loop.base, true);
  owner->url = fake_redis_url(owner->server);
  client_owner_becomes_ready(owner);
  client_free(owner->client);
  char name[] = "localhost";
  owner->url.host = name;
  client_owner_becomes_ready(owner);
}

NEW_CLIENT_TEST(a_refused_handshake_is_final) {
  char password[] = "secret";
  owner->url.password = password;
  owner->handshake_answers[0] = "-WRONGPASS invalid username-password pair\r\n";
  client_owner_fails(owner);
  assert_non_null(strstr(owner->error, "AUTH: WRONGPASS"));
  assert_non_null(strstr(owner->error, owner->url.path));
  assert_null(strstr(owner->error, "secret"));
}

NEW_CLIENT_TEST(a_refused_database_is_final) {
  owner->url.database = 99;
  owner->handshake_answers[1] = "-ERR DB index is out of range\r\n";
  client_owner_fails(owner);
  assert_non_null(strstr(owner->error, "SELECT: ERR DB index"));
}

NEW_CLIENT_TEST(a_missing_password_is_an_error) {
  owner->handshake_answers[0] = "-NOAUTH Authentication required.\r\n";
  client_owner_fails(owner);
  assert_non_null(strstr(owner->error, "NOAUTH"));
}

NEW_CLIENT_TEST(protected_mode_is_an_error) {
  owner->handshake_answers[0] = "-DENIED Redis is running in protected mode\r\n";
  client_owner_fails(owner);
  assert_non_null(strstr(owner->error, "DENIED"));
}

NEW_CLIENT_TEST(a_name_is_optional) {
  owner->handshake_answers[0] = "-NOPERM this user has no permissions\r\n";
  client_owner_becomes_ready(owner);
  client_free(owner->client);
  owner->handshake_answers[0] = "-ERR Client names cannot contain spaces\r\n";
  client_owner_becomes_ready(owner);
}

NEW_CLIENT_TEST(a_transient_error_is_tried_again) {
  owner->handshake_answers[0] = "-LOADING Redis is loading the dataset in memory\r\n";
  client_owner_start(owner, SIZE_MAX);
  client_owner_expect(owner, "connected unreachable");
  owner->handshake_answers[0] = "+OK\r\n";
  client_owner_expect(owner, "connected unreachable connected ready");
  assert_int_equal(fake_redis_connections(owner->server), 2);
}

NEW_CLIENT_TEST(a_handshake_that_is_lost_is_tried_again) {
  owner->handshake_answers[0] = NULL;
  client_owner_start(owner, SIZE_MAX);
  while (fake_redis_commands(owner->server) < 1)
    event_base_loop(owner->loop.base, EVLOOP_ONCE);
  fake_redis_send(owner->server, "+O");
  fake_redis_close_connection(owner->server);
  client_owner_expect(owner, "connected unreachable");
  owner->handshake_answers[0] = "+OK\r\n";
  client_owner_expect(owner, "connected unreachable connected ready");
}

NEW_CLIENT_TEST(it_gives_up_at_boot) {
  fake_redis_refuse(owner->server);
  int64_t start_ms = wait_now_ms();
  client_owner_start(owner, SIZE_MAX);
  client_owner_expect(owner, "unreachable unreachable unreachable unreachable failed");
  assert_true(wait_now_ms() - start_ms >= BACKOFF_BOOT_PAUSE_MS * 15 - 100); /* 1 + 2 + 4 + 8 */
  assert_non_null(strstr(owner->error, "(5 attempts)"));
  assert_non_null(strstr(owner->error, owner->url.path));
  assert_non_null(strstr(owner->error, "No such file or directory"));
}

NEW_CLIENT_TEST(it_waits_for_a_server_that_starts_late) {
  fake_redis_refuse(owner->server);
  client_owner_start(owner, SIZE_MAX);
  client_owner_expect(owner, "unreachable");
  fake_redis_accept(owner->server);
  client_owner_expect(owner, "unreachable connected ready");
}
