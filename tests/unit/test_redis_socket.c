/* The bounds of a socket: late replies, in virtual time, and turns of the loop. */
#include <sys/socket.h>

#include "agent/frontends/redis/connection/redis_socket.h"
#include "tests/support/loop.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

#define LATE_MS 300

static size_t largest(void) {
  return 5000;
}

struct trial {
  struct loop loop;
  struct redis_socket socket;
  int server; /* the other end */
  bool is_writable, is_lost;
  char why[128];
  bool writes_on; /* the owner writes at each reply */
  int replies;
  int64_t until_ms;
  const char *kept_coming; /* the server sends this again at `next_ms` */
  int64_t next_ms;
};

static void on_reply(void *owner, const redisReply *reply) {
  struct trial *trial = owner;
  struct iovec piece = {.iov_base = "PING\r\n", .iov_len = 6};
  (void)reply;
  trial->replies++;
  if (trial->writes_on)
    (void)redis_socket_write(&trial->socket, &piece, 1);
}

static void on_writable(void *owner) {
  ((struct trial *)owner)->is_writable = true;
}

static void on_lost(void *owner, struct connection_error why) {
  struct trial *trial = owner;
  (void)snprintf(trial->why, sizeof trial->why, "%s", why.text);
  trial->is_lost = true;
  redis_socket_close(&trial->socket);
}

static int set_up(void **state) {
  static const struct redis_socket_handler handler = {
      .reply = on_reply, .writable = on_writable, .lost = on_lost};
  struct trial *trial = calloc(1, sizeof *trial);
  int ends[2];
  loop_init(&trial->loop);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  redis_socket_init(&trial->socket, trial->loop.base, largest, &handler, trial);
  trial->server = ends[1];
  redis_socket_open(&trial->socket, plain_transport_new(ends[0]));
  *state = trial;
  return 0;
}

static int tear_down(void **state) {
  struct trial *trial = *state;
  redis_socket_close(&trial->socket);
  close(trial->server);
  loop_release(&trial->loop); /* no descriptor is left */
  free(trial);
  return 0;
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

static void server_sends(struct trial *trial, const char *bytes) {
  assert_int_equal(send(trial->server, bytes, strlen(bytes), 0), strlen(bytes));
}

static void expect_late(struct trial *trial) {
  LOOP_UNTIL(&trial->loop, trial->is_lost);
  assert_string_equal(trial->why, "no answer in time");
}

static bool bytes_keep_coming(void *context) {
  struct trial *trial = context;
  if (!trial->is_lost && virtual_time_ms >= trial->next_ms) {
    server_sends(trial, trial->kept_coming);
    trial->next_ms = virtual_time_ms + LATE_MS / 20;
  }
  return trial->is_lost || virtual_time_ms > trial->until_ms;
}

/* Returns true if the socket is lost while this text arrives again and again for twice the time. */
static bool is_late_while_it_sends(struct trial *trial, const char *text) {
  trial->kept_coming = text;
  trial->until_ms = virtual_time_ms + 2 * LATE_MS;
  assert_true(loop_until(&trial->loop, bytes_keep_coming, trial));
  return trial->is_lost;
}

TRIAL_TEST(the_time_restarts_with_progress) {
  static char much[REDIS_SOCKET_PROGRESS_BYTES + 1];
  memset(much, 'x', REDIS_SOCKET_PROGRESS_BYTES);
  redis_socket_set_reply_timeout(&trial->socket, LATE_MS);
  assert_false(is_late_while_it_sends(trial, "+OK\r\n"));
  loop_settle(&trial->loop);
  server_sends(trial, "$1000000000\r\n");
  assert_false(is_late_while_it_sends(trial, much));
  expect_late(trial);
}

TRIAL_TEST(a_reply_that_drips_is_late) {
  server_sends(trial, "$1000000000\r\n");
  redis_socket_set_reply_timeout(&trial->socket, LATE_MS);
  assert_true(is_late_while_it_sends(trial, "x"));
}

static size_t server_reads(struct trial *trial) {
  static char bytes[64 * 1024];
  ssize_t length = recv(trial->server, bytes, sizeof bytes, 0);
  return length > 0 ? (size_t)length : 0;
}

static void fill(struct trial *trial) {
  static char much[1024 * 1024];
  struct iovec piece = {.iov_base = much, .iov_len = sizeof much};
  while (redis_socket_write(&trial->socket, &piece, 1) == sizeof much)
    continue;
}

static bool bytes_keep_going(void *context) {
  struct trial *trial = context;
  while (server_reads(trial) > 0)
    continue;
  if (trial->is_writable)
    fill(trial);
  trial->is_writable = false;
  return trial->is_lost || virtual_time_ms > trial->until_ms;
}

TRIAL_TEST(the_time_restarts_with_every_byte_that_is_sent) {
  redis_socket_set_reply_timeout(&trial->socket, LATE_MS);
  trial->until_ms = virtual_time_ms + 2 * LATE_MS;
  fill(trial);
  assert_true(loop_until(&trial->loop, bytes_keep_going, trial));
  assert_false(trial->is_lost);
  expect_late(trial);
}

/* The server reads no more and sends without a pause; signals and timers still have their turn. */
TRIAL_TEST(what_comes_after_a_failed_write_is_read_in_turns) {
  enum { SENT = 40000 };
  int large = 1 << 20;
  char *much = malloc(4 * SENT + 1);
  assert_non_null(much);
  for (size_t i = 0; i < SENT; i++)
    memcpy(much + 4 * i, "+a\r\n", 5);
  assert_int_equal(setsockopt(trial->server, SOL_SOCKET, SO_SNDBUF, &large, sizeof large), 0);
  server_sends(trial, much);
  assert_int_equal(shutdown(trial->server, SHUT_RD), 0);
  trial->writes_on = true;
  for (int turns = 0, before = 0; !trial->is_lost; turns++, before = trial->replies) {
    event_base_loop(trial->loop.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    assert_true(trial->replies - before <= SENT * 9 / 10);
    assert_true(turns < 100);
  }
  assert_int_equal(trial->replies, SENT);
  assert_string_equal(trial->why, "Broken pipe");
  free(much);
}
