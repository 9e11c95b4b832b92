/* A client: how it becomes ready, its bytes, how it reconnects, and how it is redirected; in
   virtual time. */

#include <unistd.h>

#include "agent/frontends/redis/connection/endpoint.h"
#include "agent/frontends/redis/connection/redis_connection.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/support/recorder.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

/*
 * The owner of a client in a test: the client, its server, and a transcript of the callbacks:
 *
 *   start(owner, unlimited);
 *   expect(owner, "connected ready");
 *   fake_redis_send(owner->server, "+one\r\n");
 *   expect(owner, "connected ready one");
 *
 * Words: connected, ready, writable, lost (down), unreachable, failed. A reply is its text.
 */
struct owner {
  struct loop loop;
  struct fake_redis *server;
  struct redis_url url;
  struct redis_connection *client;
  const char *handshake_answers[4]; /* on each connection, in order; later commands get no reply */
  int connection;                   /* the one that is answered */
  size_t answered;                  /* commands on it */
  struct recorder recorder;
  char value[16]; /* of the handshake's probe */
  char error[256];
  const char *drop_at; /* the reply at which the owner drops, or stops, the client */
  const char *stop_at;
};

static void on_connected(void *owner) {
  recorder_add(&((struct owner *)owner)->recorder, "connected");
}

static void on_ready(void *owner, const redisReply *value) {
  struct owner *self = owner;
  snprintf(self->value, sizeof self->value, "%s", value->str != NULL ? value->str : "nil");
  recorder_add(&self->recorder, "ready");
}

static void on_reply(void *owner, const redisReply *reply) {
  struct owner *self = owner;
  recorder_add(&self->recorder, reply->str);
  if (self->drop_at != NULL && strcmp(reply->str, self->drop_at) == 0)
    redis_connection_reconnect(self->client, "the test wants it");
  else if (self->stop_at != NULL && strcmp(reply->str, self->stop_at) == 0)
    redis_connection_stop(self->client);
}

static void on_writable(void *owner) {
  recorder_add(&((struct owner *)owner)->recorder, "writable");
}

static void on_down(void *owner) {
  recorder_add(&((struct owner *)owner)->recorder, "lost");
}

static void on_unreachable(void *owner) {
  recorder_add(&((struct owner *)owner)->recorder, "unreachable");
}

static void on_failed(void *owner, const struct error *error) {
  struct owner *self = owner;
  recorder_add(&self->recorder, "failed");
  strcpy(self->error, error->text);
}

static const char *answer(void *owner, const char *command) {
  struct owner *self = owner;
  (void)command;
  if (self->connection != fake_redis_connections(self->server))
    self->answered = 0;
  self->connection = fake_redis_connections(self->server);
  size_t n = self->answered++;
  return n < sizeof self->handshake_answers / sizeof *self->handshake_answers
             ? self->handshake_answers[n]
             : NULL;
}

static int set_up(void **state) {
  struct owner *self = calloc(1, sizeof *self);
  loop_init(&self->loop);
  self->server = fake_redis_new(self->loop.base, false);
  fake_redis_answer_with(self->server, answer, self);
  for (size_t i = 0; i < 4; i++)
    self->handshake_answers[i] = "+OK\r\n";
  self->url = fake_redis_url(self->server);
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct owner *self = *state;
  if (self->client != NULL)
    redis_connection_free(self->client);
  fake_redis_free(self->server);
  loop_release(&self->loop);
  free(self);
  return 0;
}

static size_t unlimited(void) {
  return SIZE_MAX;
}

static size_t five_thousand(void) {
  return 5000;
}

static void make(struct owner *self, size_t (*largest_string)(void)) {
  static const struct redis_connection_handler handler = {.connected = on_connected,
                                                          .ready = on_ready,
                                                          .reply = on_reply,
                                                          .writable = on_writable,
                                                          .disconnected = on_down,
                                                          .unreachable = on_unreachable,
                                                          .failed = on_failed};
  struct redis_connection_options options = {
      .url = &self->url, .role = "test", .name = "its-name", .largest_string = largest_string};
  self->client = redis_connection_new(self->loop.base, &self->loop.log, &options, &handler, self);
}

static void start(struct owner *self, size_t (*largest_string)(void)) {
  make(self, largest_string);
  recorder_reset(&self->recorder);
  assert_false(redis_connection_start(self->client));
  assert_string_equal(recorder_text(&self->recorder), ""); /* not from inside */
}

/* Runs the loop until the transcript is as long as this one, and then until nothing is left to do
   at once; asserts that it is the same. */
static void expect(struct owner *self, const char *transcript) {
  recorder_expect(&self->loop, &self->recorder, transcript);
}

static void becomes_ready(struct owner *self) {
  start(self, unlimited);
  expect(self, "connected ready");
  assert_true(redis_connection_is_ready(self->client));
}

static int set_up_ready(void **state) {
  set_up(state);
  becomes_ready(*state);
  return 0;
}

#define NEW_CLIENT_TEST(NAME) TEST_WITH(struct owner *owner, NAME, set_up, tear_down)
#define CLIENT_TEST(NAME) TEST_WITH(struct owner *owner, NAME, set_up_ready, tear_down)

/* --- the handshake ---------------------------------------------------------------------------- */

/* The owner can use the time that the handshake takes. */
NEW_CLIENT_TEST(it_is_ready_only_after_the_last_reply) {
  char password[] = "secret";
  owner->url.password = password;
  owner->handshake_answers[1] = NULL;
  start(owner, unlimited);
  LOOP_UNTIL(&owner->loop, fake_redis_commands(owner->server) >= 2);
  expect(owner, "connected");
  struct iovec early = {.iov_base = "*1\r\n$4\r\nPING\r\n", .iov_len = 14};
  assert_int_equal(redis_connection_write(owner->client, &early, 1), 0);
  redis_connection_set_reply_timeout(owner->client,
                                     1); /* nor can the owner set the handshake's time */
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_commands(owner->server), 2);
  assert_string_equal(fake_redis_command(owner->server, 0), "AUTH secret");
  fake_redis_send_slowly(owner->server, "+OK\r\n");
  expect(owner, "connected ready");
}

NEW_CLIENT_TEST(a_handshake_may_be_more_than_the_socket_takes) {
  enum { LONG = 2000000 };
  static char password[LONG + 1];
  memset(password, 'x', LONG);
  owner->url.password = password;
  becomes_ready(owner);
  assert_int_equal(strlen(fake_redis_command(owner->server, 0)), strlen("AUTH ") + LONG);
  assert_string_equal(fake_redis_command(owner->server, 1), "CLIENT SETNAME its-name");
}

/* What comes does not put the end off. */
NEW_CLIENT_TEST(a_handshake_that_drips_is_late) {
  owner->handshake_answers[0] = "$100\r\n";
  start(owner, unlimited);
  LOOP_UNTIL(&owner->loop, fake_redis_commands(owner->server) > 0);
  for (int i = 0; i < 5; i++) {
    fake_redis_send(owner->server, "x");
    loop_settle(&owner->loop);
    assert_true(fake_redis_is_connected(owner->server));
    virtual_time_ms += 1000;
  }
  expect(owner, "connected unreachable");
  assert_int_equal(loop_logged(&owner->loop, "no answer in time"), 1);
}

NEW_CLIENT_TEST(a_handshake_that_is_lost_is_tried_again) {
  owner->handshake_answers[0] = NULL;
  start(owner, unlimited);
  LOOP_UNTIL(&owner->loop, fake_redis_commands(owner->server) >= 1);
  fake_redis_send(owner->server, "+O");
  fake_redis_close_connection(owner->server);
  expect(owner, "connected unreachable");
  owner->handshake_answers[0] = "+OK\r\n";
  expect(owner, "connected unreachable connected ready");
}

NEW_CLIENT_TEST(at_boot_it_goes_on_trying) {
  fake_redis_refuse(owner->server);
  int64_t start_ms = virtual_time_ms;
  start(owner, unlimited);
  expect(owner, "unreachable unreachable unreachable unreachable unreachable");
  assert_true(virtual_time_ms - start_ms >= CLIENT_BOOT_PAUSE_MS * 15 - 100); /* 1 + 2 + 4 + 8 */
  start_ms = virtual_time_ms;
  expect(owner,
         "unreachable unreachable unreachable unreachable unreachable unreachable unreachable");
  assert_in_range(virtual_time_ms - start_ms, 2 * REDIS_CONNECTION_PAUSE_MAX_MS - 100,
                  2 * REDIS_CONNECTION_PAUSE_MAX_MS + 100);
}

NEW_CLIENT_TEST(it_waits_for_a_server_that_starts_late) {
  fake_redis_refuse(owner->server);
  start(owner, unlimited);
  expect(owner, "unreachable");
  fake_redis_accept(owner->server);
  expect(owner, "unreachable connected ready");
}

/* --- a connection that is made before it is needed -------------------------------------------- */

static void prepare(struct owner *owner) {
  make(owner, five_thousand);
  redis_connection_prepare(owner->client);
}

/* The handshake has ended, and the owner knows of no more than the connection. */
static void is_prepared(struct owner *owner) {
  prepare(owner);
  LOOP_UNTIL(&owner->loop, fake_redis_commands(owner->server) > 0);
  expect(owner, "connected");
  assert_false(redis_connection_is_ready(owner->client));
}

static void connects_again(struct owner *owner, int connections) {
  recorder_reset(&owner->recorder);
  assert_false(redis_connection_start(owner->client));
  expect(owner, "connected ready");
  assert_int_equal(fake_redis_connections(owner->server), connections);
}

static void expect_silence(struct owner *owner, const char *transcript) {
  expect(owner, transcript);
  assert_int_equal(loop_logged(&owner->loop, "test"), 0);
}

NEW_CLIENT_TEST(what_is_prepared_is_ready_at_once) {
  is_prepared(owner);
  assert_true(redis_connection_start(owner->client));
  assert_true(redis_connection_is_ready(owner->client));
  expect(owner, "connected");
  fake_redis_send(owner->server, "+hello\r\n");
  expect(owner, "connected hello");
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

NEW_CLIENT_TEST(what_was_prepared_reconnects) {
  is_prepared(owner);
  assert_true(redis_connection_start(owner->client));
  fake_redis_close_connection(owner->server);
  expect(owner, "connected lost connected ready");
}

NEW_CLIENT_TEST(a_start_continues_what_is_under_way) {
  prepare(owner);
  connects_again(owner, 1);
  assert_string_equal(owner->value, "nil"); /* it has no probe */
}

NEW_CLIENT_TEST(to_prepare_is_idempotent) {
  prepare(owner);
  redis_connection_prepare(owner->client);
  LOOP_UNTIL(&owner->loop, fake_redis_commands(owner->server) > 0);
  redis_connection_prepare(owner->client);
  loop_settle(&owner->loop);
  redis_connection_prepare(owner->client);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_connections(owner->server), 1);
  assert_true(redis_connection_start(owner->client));
  redis_connection_prepare(owner->client);
  assert_true(redis_connection_is_ready(owner->client));
}

NEW_CLIENT_TEST(a_server_that_is_not_there_is_not_reported) {
  fake_redis_refuse(owner->server);
  prepare(owner);
  expect_silence(owner, "");
  fake_redis_accept(owner->server);
  loop_settle(&owner->loop);
  assert_int_equal(fake_redis_connections(owner->server), 0); /* it was tried once */
  connects_again(owner, 1);
}

TEST(nor_is_a_refusal, set_up, tear_down) {
  static const char *const refusals[] = {"-NOAUTH no\r\n", "-LOADING not yet\r\n"};
  for (size_t i = 0; i < 2; i++) {
    struct owner *owner = *state;
    owner->handshake_answers[0] = refusals[i];
    prepare(owner);
    LOOP_UNTIL(&owner->loop, fake_redis_commands(owner->server) > 0);
    expect_silence(owner, "connected");
    owner->handshake_answers[0] = "+OK\r\n";
    connects_again(owner, 2);
    tear_down(state);
    set_up(state);
  }
}

NEW_CLIENT_TEST(nor_is_a_loss) {
  is_prepared(owner);
  fake_redis_close_connection(owner->server);
  expect_silence(owner, "connected");
  connects_again(owner, 2);
}

NEW_CLIENT_TEST(an_unexpected_reply_ends_it) {
  is_prepared(owner);
  fake_redis_send(owner->server, "+hello\r\n");
  expect_silence(owner, "connected");
  assert_false(fake_redis_is_connected(owner->server));
  connects_again(owner, 2);
}

NEW_CLIENT_TEST(a_stop_closes_it) {
  is_prepared(owner);
  redis_connection_stop(owner->client);
  expect_silence(owner, "connected");
  assert_false(fake_redis_is_connected(owner->server));
}

/* --- bytes and replies ------------------------------------------------------------------------ */

CLIENT_TEST(it_reconnects_when_it_is_closed_in_a_reply) {
  fake_redis_send(owner->server, "+one\r\n*2\r\n$3\r\nke");
  loop_settle(&owner->loop);
  fake_redis_close_connection(owner->server);
  expect(owner, "connected ready one lost connected ready");
  fake_redis_send(owner->server, "+two\r\n$5\r\nthree\r\n"); /* nothing of the old reply is left */
  expect(owner, "connected ready one lost connected ready two three");
  assert_int_equal(fake_redis_connections(owner->server), 2);
}

CLIENT_TEST(it_reconnects_when_a_reply_is_late) {
  redis_connection_set_reply_timeout(owner->client, 1);
  redis_connection_set_reply_timeout(owner->client, 0); /* none is due any more */
  fake_redis_send(owner->server, "+a\r\n+b\r\n+c\r\n");
  expect(owner, "connected ready a b c");
  redis_connection_set_reply_timeout(owner->client, 50);
  expect(owner, "connected ready a b c lost connected ready");
}

CLIENT_TEST(the_owner_may_drop_it_in_a_reply) {
  owner->drop_at = "two";
  fake_redis_send(owner->server, "+one\r\n+two\r\n+never\r\n");
  expect(owner, "connected ready one two lost connected ready");
}

CLIENT_TEST(the_owner_may_stop_it_in_a_reply) {
  owner->stop_at = "two";
  fake_redis_send(owner->server, "+one\r\n+two\r\n+never\r\n");
  LOOP_UNTIL(&owner->loop, !fake_redis_is_connected(owner->server));
  expect(owner, "connected ready one two");
  assert_int_equal(fake_redis_connections(owner->server), 1);
}

NEW_CLIENT_TEST(writing_to_a_closed_connection_is_harmless) {
  start(owner, unlimited);
  struct iovec piece = {.iov_base = "*1\r\n$4\r\nPING\r\n", .iov_len = 14};
  assert_int_equal(redis_connection_write(owner->client, &piece, 1), 0); /* not ready yet */
  expect(owner, "connected ready");
  fake_redis_close_connection(owner->server);
  assert_int_equal(redis_connection_write(owner->client, &piece, 1), 0);
  assert_string_equal(recorder_text(&owner->recorder), "connected ready"); /* not from inside */
  expect(owner, "connected ready lost connected ready");
}

NEW_CLIENT_TEST(a_password_that_was_changed_is_an_error) {
  char password[] = "secret";
  owner->url.password = password;
  becomes_ready(owner);
  owner->handshake_answers[0] = "-WRONGPASS invalid\r\n";
  fake_redis_close_connection(owner->server);
  expect(owner, "connected ready lost connected failed");
}

/* --- pauses, and what is logged --------------------------------------------------------------- */

/* The connection is lost, or dropped for this reason; returns how long it takes to be ready again.
 */
static int64_t away_ms(struct owner *owner, const char *why) {
  int64_t start_ms = virtual_time_ms;
  recorder_reset(&owner->recorder);
  if (why != NULL)
    redis_connection_reconnect(owner->client, why);
  else
    fake_redis_close_connection(owner->server);
  expect(owner, "lost connected ready");
  return virtual_time_ms - start_ms;
}

/* What the client does on an error reply, until it is ready again. */
static void reconnects_on(struct owner *owner, const char *text) {
  recorder_reset(&owner->recorder);
  assert_true(redis_connection_recover(owner->client, text));
  assert_false(redis_connection_is_ready(owner->client));
  expect(owner, "lost connected ready");
}

/* Half of a pause is random. Timers are some milliseconds early: the loop's clock is a coarse one.
 */
CLIENT_TEST(pauses_double_until_a_reply_is_useful) {
  for (int pause_ms = REDIS_CONNECTION_PAUSE_MIN_MS; pause_ms <= 16 * REDIS_CONNECTION_PAUSE_MIN_MS;
       pause_ms *= 2)
    assert_true(away_ms(owner, NULL) >= pause_ms / 2 - 10);
  redis_connection_mark_healthy(owner->client);
  assert_true(away_ms(owner, NULL) <
              16 * REDIS_CONNECTION_PAUSE_MIN_MS); /* half of what would be next */
}

/* A handshake alone does not end an outage. */
CLIENT_TEST(the_same_reason_is_logged_once) {
  for (int times = 0; times < 3; times++)
    (void)away_ms(owner, "OOM no room");
  assert_int_equal(loop_logged(&owner->loop, " lost: "), 1);
  assert_int_equal(loop_logged(&owner->loop, "OOM no room"), 1);
  assert_int_equal(loop_logged(&owner->loop, "reconnecting"), 1);
  (void)away_ms(owner, "LOADING it is"); /* another reason */
  (void)away_ms(owner, "LOADING it is");
  assert_int_equal(loop_logged(&owner->loop, " lost: "), 2);
  assert_int_equal(loop_logged(&owner->loop, "LOADING it is"), 1);
}

/* A server that starts again is away for some moments. */
CLIENT_TEST(why_it_stays_away_is_logged_once) {
  fake_redis_refuse(owner->server);
  fake_redis_close_connection(owner->server);
  expect(owner, "connected ready lost unreachable unreachable unreachable");
  assert_int_equal(loop_logged(&owner->loop, "cannot connect"), 0);
  expect(owner, "connected ready lost unreachable unreachable unreachable unreachable "
                "unreachable unreachable unreachable unreachable");
  assert_int_equal(loop_logged(&owner->loop, "cannot connect"), 1);
}

CLIENT_TEST(an_outage_ends_with_a_useful_reply) {
  redis_connection_mark_healthy(owner->client);
  assert_int_equal(loop_logged(&owner->loop, "again"), 0); /* there was none */
  (void)away_ms(owner, "OOM no room");
  virtual_time_ms += 100000;
  (void)away_ms(owner, "OOM no room"); /* since the first time */
  redis_connection_mark_healthy(owner->client);
  assert_int_equal(loop_logged(&owner->loop, "again after 10"), 1);
  redis_connection_mark_healthy(owner->client);
  assert_int_equal(loop_logged(&owner->loop, "again after"), 1);
  (void)away_ms(owner, "OOM no room"); /* another outage */
  redis_connection_mark_healthy(owner->client);
  assert_int_equal(loop_logged(&owner->loop, "OOM no room"), 2);
  assert_int_equal(loop_logged(&owner->loop, "again after 0."), 1);
}

CLIENT_TEST(an_error_that_lasts_is_logged_once) {
  for (int times = 0; times < 4; times++) {
    reconnects_on(owner, times % 2 == 0 ? "OOM no room" : "OOM not yet"); /* the kind counts */
    virtual_time_ms += 100000;
  }
  assert_int_equal(loop_logged(&owner->loop, "refuses for now: OOM"), 1);
  reconnects_on(owner, "MISCONF no disk"); /* another reason */
  assert_int_equal(loop_logged(&owner->loop, "refuses for now"), 2);
  redis_connection_mark_healthy(owner->client);
  assert_int_equal(loop_logged(&owner->loop, "again after 40"), 1);
}

/* A minute has to lie between two that are logged. */
CLIENT_TEST(an_error_that_comes_and_goes_is_logged_every_minute) {
  for (int times = 0; times < 3; times++) {
    reconnects_on(owner, "OOM no room");
    redis_connection_mark_healthy(owner->client);
    virtual_time_ms += 20000;
  }
  assert_int_equal(loop_logged(&owner->loop, "refuses for now: OOM"), 1);
  assert_int_equal(loop_logged(&owner->loop, "again after"), 1);
  reconnects_on(owner, "OOM no room");
  redis_connection_mark_healthy(owner->client);
  assert_int_equal(loop_logged(&owner->loop, "refuses for now: OOM"), 2);
  assert_int_equal(loop_logged(&owner->loop, "again after"), 2);
}

/* --- a server that says that it is another one ------------------------------------------------ */

static struct fake_redis *other; /* another node than the owner's server */
static char moved[64];           /* "MOVED <slot> <the other>" */
static char moved_answer[80];    /* the same as it is sent */

static int set_up_other(void **state) {
  set_up(state);
  const struct owner *owner = *state;
  other = fake_redis_new(owner->loop.base, true);
  (void)snprintf(moved, sizeof moved, "MOVED 3999 127.0.0.1:%u", fake_redis_url(other).hosts->port);
  (void)snprintf(moved_answer, sizeof moved_answer, "-%s\r\n", moved);
  return 0;
}

static int tear_down_other(void **state) {
  fake_redis_free(other);
  return tear_down(state);
}

#define MOVED_TEST(NAME) TEST_WITH(struct owner *owner, NAME, set_up_other, tear_down_other)

static void expect_connections(const struct owner *owner, int own, int others) {
  assert_int_equal(fake_redis_connections(owner->server), own);
  assert_int_equal(fake_redis_connections(other), others);
}

MOVED_TEST(a_handshake_is_redirected) {
  owner->handshake_answers[0] = moved_answer;
  int64_t start_ms = virtual_time_ms;
  start(owner, unlimited);
  expect(owner, "connected connected ready");
  assert_true(virtual_time_ms - start_ms < CLIENT_BOOT_PAUSE_MS);
  expect_connections(owner, 1, 1);
}

MOVED_TEST(it_goes_back_when_the_node_is_not_there) {
  fake_redis_refuse(other);
  becomes_ready(owner);
  assert_true(redis_connection_recover(owner->client, moved));
  expect(owner, "connected ready lost unreachable connected ready");
  expect_connections(owner, 2, 0);
}

/* Two nodes redirect to each other. */
MOVED_TEST(a_circle_ends_with_a_pause) {
  becomes_ready(owner);
  for (int i = 0; i < ENDPOINT_REDIRECTS_MAX; i++)
    reconnects_on(owner, moved);
  expect_connections(owner, 1, ENDPOINT_REDIRECTS_MAX);
  int64_t start_ms = virtual_time_ms;
  reconnects_on(owner, moved);
  assert_true(virtual_time_ms - start_ms >= REDIS_CONNECTION_PAUSE_MIN_MS / 2 - 10);
  expect_connections(owner, 2, ENDPOINT_REDIRECTS_MAX);
}

MOVED_TEST(it_reconnects_on_a_transient_error) {
  static const char *const texts[] = {"ASK 3999 127.0.0.1:1", "TRYAGAIN Multiple keys request",
                                      "CLUSTERDOWN The cluster is down", "MOVED nowhere"};
  becomes_ready(owner);
  for (int i = 0; i < 4; i++) {
    reconnects_on(owner, texts[i]);
    expect_connections(owner, i + 2, 0);
  }
}

MOVED_TEST(it_does_nothing_on_any_other_error) {
  becomes_ready(owner);
  assert_false(redis_connection_recover(owner->client, "CROSSSLOT Keys in request"));
  assert_false(redis_connection_recover(owner->client, "WRONGTYPE Operation"));
  assert_true(redis_connection_is_ready(owner->client));
  assert_string_equal(recorder_text(&owner->recorder), "connected ready");
}
