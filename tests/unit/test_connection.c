#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/doors/redis/net/connection.h"
#include "tests/support/loop.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define LARGEST 5000
#define LATE_MS 300

/* Who owns a connection in a test: the connection, its other end, and what it said. */
struct trial {
  struct loop loop;
  struct connection connection;
  int server;
  int replies;
  char text[256]; /* the strings that came, one space behind each; of an array its second one */
  int empty;      /* arrays that came without their strings */
  int too_large;
  int writable;
  int lost;
  char why[64];
  const char *close_at; /* a reply at which the owner closes it */
  int64_t until_ms;
};

static void on_reply(void *owner, const redisReply *reply) {
  struct trial *trial = owner;
  const redisReply *said = reply->type == REDIS_REPLY_ARRAY ? reply->element[1] : reply;
  trial->replies++;
  trial->too_large += connection_reply_too_large(&trial->connection);
  if (said == NULL)
    trial->empty++;
  else
    strncat(strncat(trial->text, said->str, 20), " ", 2);
  if (trial->close_at != NULL && said != NULL && strcmp(said->str, trial->close_at) == 0)
    connection_close(&trial->connection);
}

static void on_writable(void *owner) {
  ((struct trial *)owner)->writable++;
}

static void on_lost(void *owner, const char *why) {
  struct trial *trial = owner;
  trial->lost++;
  connection_close(&trial->connection);
  (void)snprintf(trial->why, sizeof trial->why, "%s", why);
}

static void open_connection(struct trial *trial) {
  int ends[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  trial->server = ends[1];
  connection_open(&trial->connection, ends[0]);
}

static int set_up(void **state) {
  static const struct connection_handler handler = {
      .reply = on_reply, .writable = on_writable, .lost = on_lost};
  struct trial *trial = calloc(1, sizeof *trial);
  loop_init(&trial->loop);
  connection_init(&trial->connection, trial->loop.base, LARGEST, &handler, trial);
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
  connection_close(&trial->connection);
  close_server(trial);
  loop_release(&trial->loop); /* no descriptor is left */
  free(trial);
  return 0;
}

static void server_says(struct trial *trial, const char *bytes) {
  assert_int_equal(send(trial->server, bytes, strlen(bytes), 0), strlen(bytes));
}

static void is_lost(struct trial *trial, const char *why) {
  assert_true(loop_until(&trial->loop, loop_is_counted, &trial->lost));
  loop_settle(&trial->loop);
  assert_int_equal(trial->lost, 1);
  assert_string_equal(trial->why, why);
}

TEST(replies_come_in_order_however_they_are_cut, set_up, tear_down) {
  struct trial *trial = *state;
  static const char replies[] = "+one\r\n$3\r\ntwo\r\n*2\r\n$3\r\nkey\r\n$5\r\nthree\r\n";
  server_says(trial, replies);
  loop_settle(&trial->loop);
  assert_string_equal(trial->text, "one two three ");
  for (size_t i = 0; i < sizeof replies - 1; i++) {
    server_says(trial, (char[]){replies[i], '\0'});
    loop_settle(&trial->loop);
  }
  assert_string_equal(trial->text, "one two three one two three ");
}

TEST(a_string_that_is_too_large_is_told, set_up, tear_down) {
  struct trial *trial = *state;
  char text[LARGEST + 100];
  int head = sprintf(text, "$%d\r\n", LARGEST + 1);
  memset(text + head, 'x', LARGEST);
  text[head + LARGEST] = '\0';
  server_says(trial, text);
  loop_settle(&trial->loop);
  assert_int_equal(trial->replies, 0);
  server_says(trial, "x\r\n+one\r\n");
  loop_settle(&trial->loop);
  assert_int_equal(trial->too_large, 1);
  assert_string_equal(trial->text, "xxxxxxxxxxxxxxxxxxxx one ");
}

TEST(why_it_is_lost_is_told_once, set_up, tear_down) {
  struct trial *trial = *state;
  server_says(trial, "+one\r\n+tw");
  close_server(trial);
  is_lost(trial, "closed by the server");
  assert_string_equal(trial->text, "one ");
}

TEST(what_is_not_the_protocol_ends_it, set_up, tear_down) {
  struct trial *trial = *state;
  server_says(trial, "+one\r\nHTTP/1.1 400 Bad Request\r\n+never\r\n");
  is_lost(trial, "Protocol error, got \"H\" as reply type byte");
  assert_string_equal(trial->text, "one ");
}

TEST(what_the_system_says_is_told, set_up, tear_down) {
  struct trial *trial = *state;
  struct iovec piece = {.iov_base = "PING", .iov_len = 4};
  assert_int_equal(connection_write(&trial->connection, &piece, 1), 4);
  close_server(trial); /* without having read it */
  is_lost(trial, "Connection reset by peer");
}

static bool time_is_over(void *context) {
  return wait_now_ms() > ((const struct trial *)context)->until_ms;
}

TEST(only_an_answer_that_is_due_can_be_late, set_up, tear_down) {
  struct trial *trial = *state;
  connection_expect(&trial->connection, 1);
  connection_expect(&trial->connection, 0);
  trial->until_ms = wait_now_ms() + 50;
  assert_true(loop_until(&trial->loop, time_is_over, trial));
  assert_int_equal(trial->lost, 0);
  connection_expect(&trial->connection, 1);
  is_lost(trial, "no answer in time");
}

static bool bytes_keep_coming(void *context) {
  struct trial *trial = context;
  server_says(trial, "x");
  return trial->lost > 0 || wait_now_ms() > trial->until_ms;
}

TEST(time_starts_again_with_every_byte_that_arrives, set_up, tear_down) {
  struct trial *trial = *state;
  server_says(trial, "$1000000000\r\n");
  connection_expect(&trial->connection, LATE_MS);
  trial->until_ms = wait_now_ms() + 2 * LATE_MS;
  assert_true(loop_until(&trial->loop, bytes_keep_coming, trial));
  assert_int_equal(trial->lost, 0);
  is_lost(trial, "no answer in time");
}

static size_t server_takes(struct trial *trial) {
  static char bytes[64 * 1024];
  ssize_t length = recv(trial->server, bytes, sizeof bytes, 0);
  return length > 0 ? (size_t)length : 0;
}

static void fill(struct trial *trial) {
  static char much[1024 * 1024];
  struct iovec piece = {.iov_base = much, .iov_len = sizeof much};
  while (connection_write(&trial->connection, &piece, 1) == sizeof much)
    continue;
}

static bool bytes_keep_going(void *context) {
  struct trial *trial = context;
  (void)server_takes(trial);
  if (trial->writable > 0)
    fill(trial);
  trial->writable = 0;
  return trial->lost > 0 || wait_now_ms() > trial->until_ms;
}

TEST(time_starts_again_with_every_byte_that_is_taken, set_up, tear_down) {
  struct trial *trial = *state;
  connection_expect(&trial->connection, LATE_MS);
  trial->until_ms = wait_now_ms() + 2 * LATE_MS;
  fill(trial);
  assert_true(loop_until(&trial->loop, bytes_keep_going, trial));
  assert_int_equal(trial->lost, 0);
  is_lost(trial, "no answer in time");
}

TEST(what_does_not_fit_is_told_and_can_follow, set_up, tear_down) {
  static char much[3000000];
  struct trial *trial = *state;
  struct iovec pieces[] = {{.iov_base = much, .iov_len = 10},
                           {.iov_base = much + 10, .iov_len = sizeof much - 10}};
  size_t sent = connection_write(&trial->connection, pieces, 2);
  assert_true(sent > 10 && sent < sizeof much);
  loop_settle(&trial->loop);
  assert_int_equal(trial->writable, 0);
  size_t taken = 0;
  while (taken < sizeof much) {
    for (size_t more; (more = server_takes(trial)) > 0;)
      taken += more;
    if (sent == sizeof much)
      continue;
    trial->writable = 0;
    assert_true(loop_until(&trial->loop, loop_is_counted, &trial->writable));
    struct iovec rest = {.iov_base = much + sent, .iov_len = sizeof much - sent};
    sent += connection_write(&trial->connection, &rest, 1);
  }
  assert_int_equal(taken, sizeof much);
  trial->writable = 0;
  loop_settle(&trial->loop);
  assert_int_equal(trial->writable, 0); /* all of it went */
}

TEST(that_nobody_reads_any_more_is_not_told_from_inside, set_up, tear_down) {
  struct trial *trial = *state;
  struct iovec piece = {.iov_base = "PING", .iov_len = 4};
  close_server(trial);
  assert_int_equal(connection_write(&trial->connection, &piece, 1), 0);
  assert_int_equal(trial->lost, 0);
  is_lost(trial, "closed by the server");
}

TEST(the_owner_may_close_it_in_a_reply, set_up, tear_down) {
  struct trial *trial = *state;
  trial->close_at = "two";
  server_says(trial, "+one\r\n+two\r\n+never\r\n");
  loop_settle(&trial->loop);
  assert_string_equal(trial->text, "one two ");
  assert_int_equal(trial->lost, 0);
}

TEST(nothing_is_told_of_what_is_closed, set_up, tear_down) {
  struct trial *trial = *state;
  server_says(trial, "+never\r\n");
  connection_expect(&trial->connection, 1);
  fill(trial);
  int fd = trial->connection.fd;
  connection_close(&trial->connection);
  connection_close(&trial->connection);
  assert_int_equal(fcntl(fd, F_GETFD), -1);
  loop_settle(&trial->loop);
  assert_int_equal(trial->replies + trial->writable + trial->lost, 0);
}

TEST(another_one_has_nothing_of_the_one_before, set_up, tear_down) {
  struct trial *trial = *state;
  static const char array[] = "*2\r\n$3\r\nkey\r\n$5\r\nthree\r\n";
  connection_discard_values(&trial->connection);
  connection_expect(&trial->connection, 50);
  server_says(trial, array);
  server_says(trial, "*2\r\n$3\r\nke");
  loop_settle(&trial->loop);
  assert_int_equal(trial->empty, 1);
  connection_close(&trial->connection);
  close_server(trial);
  open_connection(trial);
  server_says(trial, array);
  loop_settle(&trial->loop);
  assert_string_equal(trial->text, "three ");
  connection_expect(&trial->connection, 50); /* also when it is the same time as before */
  is_lost(trial, "no answer in time");
}
