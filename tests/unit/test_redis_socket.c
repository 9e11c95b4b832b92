#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/frontends/redis/connection/redis_socket.h"
#include "tests/support/recorder.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

#define LARGEST 5000

static size_t largest(void) {
  return LARGEST;
}
#define LATE_MS 300

/* The owner of a connection in a test: the connection, its other end, and a transcript: a reply is
   its text, of an array the second element's; "null" for one that was discarded. */
struct trial {
  struct loop loop;
  struct redis_socket connection;
  int server;
  struct recorder recorder;
  bool writable; /* since it was last asked for */
  char why[128];
  bool writes_on; /* the owner writes at each reply */
  int replies;    /* that came while it did */
  int64_t until_ms;
  const char *kept_coming; /* from the server, again at this time */
  int64_t next_ms;
};

static void on_reply(void *owner, const redisReply *reply) {
  struct trial *trial = owner;
  if (trial->writes_on) {
    struct iovec piece = {.iov_base = "PING\r\n", .iov_len = 6};
    (void)redis_socket_write(&trial->connection, &piece, 1);
    trial->replies++;
    return;
  }
  const redisReply *shown = reply->type == REDIS_REPLY_ARRAY ? reply->element[1] : reply;
  char text[32] = "null";
  if (shown != NULL)
    (void)snprintf(text, sizeof text, "%.20s", shown->str);
  if (trial->connection.is_truncated)
    recorder_add(&trial->recorder, "too_large");
  recorder_add(&trial->recorder, text);
}

static void on_writable(void *owner) {
  ((struct trial *)owner)->writable = true;
}

static void on_lost(void *owner, struct connection_error why) {
  struct trial *trial = owner;
  recorder_add(&trial->recorder, "lost");
  redis_socket_close(&trial->connection);
  (void)snprintf(trial->why, sizeof trial->why, "%s", why.text);
}

static void open_connection(struct trial *trial) {
  int ends[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  trial->server = ends[1];
  redis_socket_open(&trial->connection, plain_transport_new(ends[0]));
}

static int set_up(void **state) {
  static const struct redis_socket_handler handler = {
      .reply = on_reply, .writable = on_writable, .lost = on_lost};
  struct trial *trial = calloc(1, sizeof *trial);
  loop_init(&trial->loop);
  redis_socket_init(&trial->connection, trial->loop.base, largest, &handler, trial);
  open_connection(trial);
  *state = trial;
  return 0;
}

static void close_server(struct trial *trial) {
  if (trial->server >= 0)
    close(trial->server);
  trial->server = -1;
}

static int tear_down(void **state) {
  struct trial *trial = *state;
  redis_socket_close(&trial->connection);
  close_server(trial);
  loop_release(&trial->loop); /* no descriptor is left */
  free(trial);
  return 0;
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

static void server_sends(struct trial *trial, const char *bytes) {
  assert_int_equal(send(trial->server, bytes, strlen(bytes), 0), strlen(bytes));
}

static void expect(struct trial *trial, const char *transcript) {
  loop_settle(&trial->loop);
  assert_string_equal(recorder_text(&trial->recorder), transcript);
}

static void is_lost(struct trial *trial, const char *transcript, const char *why) {
  assert_true(recorder_await(&trial->loop, &trial->recorder, "lost", 1));
  expect(trial, transcript);
  assert_string_equal(trial->why, why);
}

static bool is_lost_already(const struct trial *trial) {
  return recorder_count(&trial->recorder, "lost") > 0;
}

TRIAL_TEST(replies_come_in_order_however_they_are_cut) {
  static const char replies[] = "+one\r\n$3\r\ntwo\r\n*2\r\n$3\r\nkey\r\n$5\r\nthree\r\n";
  server_sends(trial, replies);
  expect(trial, "one two three");
  for (size_t i = 0; i < sizeof replies - 1; i++) {
    server_sends(trial, (char[]){replies[i], '\0'});
    loop_settle(&trial->loop);
  }
  expect(trial, "one two three one two three");
}

TRIAL_TEST(a_string_that_is_too_large_is_marked) {
  char text[LARGEST + 100];
  int head = sprintf(text, "$%d\r\n", LARGEST + 1);
  memset(text + head, 'x', LARGEST);
  text[head + LARGEST] = '\0';
  server_sends(trial, text);
  expect(trial, "");
  server_sends(trial, "x\r\n+one\r\n");
  expect(trial, "too_large xxxxxxxxxxxxxxxxxxxx one");
}

TRIAL_TEST(a_protocol_error_is_a_loss) {
  server_sends(trial, "+one\r\nHTTP/1.1 400 Bad Request\r\n+never\r\n");
  is_lost(trial, "one lost", "Protocol error, got \"H\" as reply type byte");
}

TRIAL_TEST(an_error_of_the_socket_is_a_loss) {
  struct iovec piece = {.iov_base = "PING", .iov_len = 4};
  assert_int_equal(redis_socket_write(&trial->connection, &piece, 1), 4);
  server_sends(trial, "+one\r\n");
  expect(trial, "one");
  close_server(trial); /* without having read it */
  is_lost(trial, "one lost", "Connection reset by peer");
}

TRIAL_TEST(only_a_reply_that_is_due_can_be_late) {
  redis_socket_set_reply_timeout(&trial->connection, 1);
  redis_socket_set_reply_timeout(&trial->connection, 0);
  trial->until_ms = virtual_time_ms + 50;
  LOOP_UNTIL(&trial->loop, virtual_time_ms > trial->until_ms);
  assert_false(is_lost_already(trial));
  redis_socket_set_reply_timeout(&trial->connection, 1);
  is_lost(trial, "lost", "no answer in time");
}

static bool bytes_keep_coming(void *context) {
  struct trial *trial = context;
  if (!is_lost_already(trial) && virtual_time_ms >= trial->next_ms) {
    server_sends(trial, trial->kept_coming);
    trial->next_ms = virtual_time_ms + LATE_MS / 20;
  }
  return is_lost_already(trial) || virtual_time_ms > trial->until_ms;
}

/* Whether it is lost before this text has come over and over for twice the time. */
static bool is_lost_while_it_sends(struct trial *trial, const char *text) {
  trial->kept_coming = text;
  trial->until_ms = virtual_time_ms + 2 * LATE_MS;
  assert_true(loop_until(&trial->loop, bytes_keep_coming, trial));
  return is_lost_already(trial);
}

TRIAL_TEST(the_time_restarts_with_progress) {
  static char much[REDIS_SOCKET_PROGRESS_BYTES + 1];
  memset(much, 'x', REDIS_SOCKET_PROGRESS_BYTES);
  redis_socket_set_reply_timeout(&trial->connection, LATE_MS);
  assert_false(is_lost_while_it_sends(trial, "+OK\r\n"));
  loop_settle(&trial->loop);
  recorder_reset(&trial->recorder);
  server_sends(trial, "$1000000000\r\n");
  assert_false(is_lost_while_it_sends(trial, much));
  is_lost(trial, "lost", "no answer in time");
}

TRIAL_TEST(a_reply_that_drips_is_late) {
  server_sends(trial, "$1000000000\r\n");
  redis_socket_set_reply_timeout(&trial->connection, LATE_MS);
  assert_true(is_lost_while_it_sends(trial, "x"));
}

TRIAL_TEST(a_line_without_an_end_is_a_loss) {
  static char much[REPLY_PARSER_LINE_MAX / 2 + 1];
  memset(much, 'x', sizeof much - 1);
  server_sends(trial, "-");
  for (int i = 0; i < 3 && !is_lost_already(trial); i++) {
    server_sends(trial, much);
    loop_settle(&trial->loop);
  }
  is_lost(trial, "lost", "a line without an end");
}

static size_t server_reads(struct trial *trial) {
  static char bytes[64 * 1024];
  ssize_t length = recv(trial->server, bytes, sizeof bytes, 0);
  return length > 0 ? (size_t)length : 0;
}

static void fill(struct trial *trial) {
  static char much[1024 * 1024];
  struct iovec piece = {.iov_base = much, .iov_len = sizeof much};
  while (redis_socket_write(&trial->connection, &piece, 1) == sizeof much)
    continue;
}

static bool bytes_keep_going(void *context) {
  struct trial *trial = context;
  while (server_reads(trial) > 0)
    continue;
  if (trial->writable)
    fill(trial);
  trial->writable = false;
  return is_lost_already(trial) || virtual_time_ms > trial->until_ms;
}

TRIAL_TEST(the_time_restarts_with_every_byte_that_is_sent) {
  redis_socket_set_reply_timeout(&trial->connection, LATE_MS);
  trial->until_ms = virtual_time_ms + 2 * LATE_MS;
  fill(trial);
  assert_true(loop_until(&trial->loop, bytes_keep_going, trial));
  assert_false(is_lost_already(trial));
  is_lost(trial, "lost", "no answer in time");
}

TRIAL_TEST(writable_follows_a_write_that_took_less) {
  static char much[3000000];
  struct iovec pieces[] = {{.iov_base = much, .iov_len = 10},
                           {.iov_base = much + 10, .iov_len = sizeof much - 10}};
  size_t sent = redis_socket_write(&trial->connection, pieces, 2);
  assert_true(sent > 10 && sent < sizeof much);
  loop_settle(&trial->loop);
  assert_false(trial->writable);
  size_t taken = 0;
  while (taken < sizeof much) {
    for (size_t more; (more = server_reads(trial)) > 0;)
      taken += more;
    if (sent == sizeof much)
      continue;
    trial->writable = false;
    LOOP_UNTIL(&trial->loop, trial->writable);
    struct iovec rest = {.iov_base = much + sent, .iov_len = sizeof much - sent};
    sent += redis_socket_write(&trial->connection, &rest, 1);
  }
  assert_int_equal(taken, sizeof much);
  trial->writable = false;
  expect(trial, "");
  assert_false(trial->writable); /* all of it was written */
}

TRIAL_TEST(a_loss_is_not_reported_from_inside_a_write) {
  struct iovec piece = {.iov_base = "PING", .iov_len = 4};
  close_server(trial);
  assert_int_equal(redis_socket_write(&trial->connection, &piece, 1), 0);
  assert_string_equal(recorder_text(&trial->recorder), "");
  is_lost(trial, "lost",
          "closed by the server before its first answer: if this port speaks TLS, use "
          "rediss://, or ssl=true");
}

TRIAL_TEST(an_alert_of_tls_is_told) {
  server_sends(trial, "\x15\x03\x01");
  is_lost(trial, "lost", "this port speaks TLS: use rediss://, or ssl=true");
}

TRIAL_TEST(nothing_is_reported_after_it_was_closed) {
  server_sends(trial, "+never\r\n");
  redis_socket_set_reply_timeout(&trial->connection, 1);
  fill(trial);
  int fd = trial->connection.transport->fd;
  redis_socket_close(&trial->connection);
  redis_socket_close(&trial->connection);
  assert_int_equal(fcntl(fd, F_GETFD), -1);
  expect(trial, "");
  assert_false(trial->writable);
}

TRIAL_TEST(the_next_one_has_nothing_of_the_one_before) {
  static const char array[] = "*2\r\n$3\r\nkey\r\n$5\r\nthree\r\n";
  reply_parser_discard_values(&trial->connection.parser);
  redis_socket_set_reply_timeout(&trial->connection, 50);
  server_sends(trial, array);
  server_sends(trial, "*2\r\n$3\r\nkey\r\n$6000\r\nxx"); /* too large, and cut off */
  expect(trial, "null");
  redis_socket_close(&trial->connection);
  close_server(trial);
  open_connection(trial);
  server_sends(trial, array);
  expect(trial, "null three");
  redis_socket_set_reply_timeout(&trial->connection,
                                 50); /* also when it is the same time as before */
  is_lost(trial, "null three lost", "no answer in time");
}

/* A server that takes no more, and sends without a pause: signals and other timers have their
   turn. */
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
  for (int turns = 0, before = 0; !is_lost_already(trial); turns++, before = trial->replies) {
    event_base_loop(trial->loop.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    assert_true(trial->replies - before <= SENT * 9 / 10);
    assert_true(turns < 100);
  }
  assert_int_equal(trial->replies, SENT);
  assert_string_equal(trial->why, "Broken pipe");
  free(much);
}
