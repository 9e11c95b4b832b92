/* How a connection is prepared, reconnects and is redirected, and what it logs; in virtual time. */

#include "agent/frontends/redis/connection/endpoint.h"
#include "agent/frontends/redis/connection/redis_connection.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/support/recorder.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

/*
 * The owner of a connection in a test, its server, and a transcript of the callbacks:
 *
 *   start(owner);
 *   expect(owner, "ready");
 *   fake_redis_send(owner->server, "+one\r\n");
 *   expect(owner, "ready one");
 *
 * Its words are ready, lost, unreachable and failed. A reply is its text.
 */
struct owner {
  struct loop loop;
  struct fake_redis *server;
  struct redis_url url;
  struct redis_connection *connection;
  const char *handshake_answers[4]; /* on each connection, in order; later commands get no reply */
  int number;                       /* of the connection that is answered */
  size_t answered;                  /* commands on it */
  struct recorder recorder;
};

static void on_ready(void *owner, const struct reply *value) {
  (void)value;
  recorder_add(&((struct owner *)owner)->recorder, "ready");
}

static void on_reply(void *owner, const struct reply *reply) {
  recorder_add(&((struct owner *)owner)->recorder, reply->str);
}

static void on_down(void *owner) {
  recorder_add(&((struct owner *)owner)->recorder, "lost");
}

static void on_unreachable(void *owner) {
  recorder_add(&((struct owner *)owner)->recorder, "unreachable");
}

static void on_failed(void *owner, const struct error *error) {
  (void)error;
  recorder_add(&((struct owner *)owner)->recorder, "failed");
}

static const char *answer(void *owner, const char *command) {
  struct owner *self = owner;
  (void)command;
  if (self->number != fake_redis_connections(self->server))
    self->answered = 0;
  self->number = fake_redis_connections(self->server);
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
  if (self->connection != NULL)
    redis_connection_free(self->connection);
  fake_redis_free(self->server);
  loop_release(&self->loop);
  free(self);
  return 0;
}

static void start(struct owner *self) {
  static const struct redis_connection_handler handler = {.ready = on_ready,
                                                          .reply = on_reply,
                                                          .disconnected = on_down,
                                                          .unreachable = on_unreachable,
                                                          .failed = on_failed};
  struct redis_connection_options options = {.url = &self->url, .role = "test", .name = "its-name"};
  self->connection =
      redis_connection_new(self->loop.base, &self->loop.log, &options, &handler, self);
  recorder_reset(&self->recorder);
  assert_false(redis_connection_start(self->connection));
  assert_string_equal(recorder_text(&self->recorder), ""); /* only from the loop */
}

/* Runs the loop until the transcript is as long as this one, and then until nothing is left to do
   at once; asserts that it is the same. */
static void expect(struct owner *self, const char *transcript) {
  recorder_expect(&self->loop, &self->recorder, transcript);
}

static void becomes_ready(struct owner *self) {
  start(self);
  expect(self, "ready");
  assert_true(redis_connection_is_ready(self->connection));
}

static int set_up_ready(void **state) {
  set_up(state);
  becomes_ready(*state);
  return 0;
}

#define STOPPED_TEST(NAME) TEST_WITH(struct owner *owner, NAME, set_up, tear_down)
#define READY_TEST(NAME) TEST_WITH(struct owner *owner, NAME, set_up_ready, tear_down)

/* --- the handshake ---------------------------------------------------------------------------- */

/* Bytes that arrive do not extend the deadline. */
STOPPED_TEST(a_handshake_that_arrives_in_single_bytes_times_out) {
  owner->handshake_answers[0] = "$100\r\n";
  start(owner);
  LOOP_UNTIL(&owner->loop, fake_redis_commands(owner->server) > 0);
  for (int i = 0; i < 5; i++) {
    fake_redis_send(owner->server, "x");
    loop_settle(&owner->loop);
    assert_true(fake_redis_is_connected(owner->server));
    virtual_time_ms += 1000;
  }
  expect(owner, "unreachable");
  assert_int_equal(loop_logged(&owner->loop, "no answer in time"), 1);
}

/* --- pauses, and what is logged --------------------------------------------------------------- */

/* Loses the connection, or drops it for this reason, and returns the time until it is ready. */
static int64_t away_ms(struct owner *owner, const char *why) {
  int64_t start_ms = virtual_time_ms;
  recorder_reset(&owner->recorder);
  if (why != NULL)
    redis_connection_reconnect(owner->connection, why);
  else
    fake_redis_close_connection(owner->server);
  expect(owner, "lost ready");
  return virtual_time_ms - start_ms;
}

static void reconnects_on(struct owner *owner, const char *text) {
  recorder_reset(&owner->recorder);
  assert_true(redis_connection_recover(owner->connection, text));
  assert_false(redis_connection_is_ready(owner->connection));
  expect(owner, "lost ready");
}

/* Half of a pause is random. Timers may be some milliseconds early. */
READY_TEST(pauses_double_until_a_reply_is_useful) {
  for (int pause_ms = REDIS_CONNECTION_PAUSE_MIN_MS; pause_ms <= 16 * REDIS_CONNECTION_PAUSE_MIN_MS;
       pause_ms *= 2)
    assert_true(away_ms(owner, NULL) >= pause_ms / 2 - 10);
  redis_connection_mark_healthy(owner->connection);
  assert_true(away_ms(owner, NULL) <
              16 * REDIS_CONNECTION_PAUSE_MIN_MS); /* half of the next pause */
}

/* A handshake alone does not end an outage. */
READY_TEST(the_same_reason_is_logged_once) {
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

/* A short outage, such as a restart of the server, is not logged. */
READY_TEST(the_reason_of_an_outage_is_logged_once) {
  fake_redis_refuse(owner->server);
  fake_redis_close_connection(owner->server);
  expect(owner, "ready lost unreachable unreachable unreachable");
  assert_int_equal(loop_logged(&owner->loop, "cannot connect"), 0);
  expect(owner, "ready lost unreachable unreachable unreachable unreachable "
                "unreachable unreachable unreachable unreachable");
  assert_int_equal(loop_logged(&owner->loop, "cannot connect"), 1);
}

READY_TEST(an_outage_ends_with_a_useful_reply) {
  redis_connection_mark_healthy(owner->connection);
  assert_int_equal(loop_logged(&owner->loop, "again"), 0); /* there was none */
  (void)away_ms(owner, "OOM no room");
  virtual_time_ms += 100000;
  (void)away_ms(owner, "OOM no room"); /* since the first time */
  redis_connection_mark_healthy(owner->connection);
  assert_int_equal(loop_logged(&owner->loop, "again after 10"), 1);
  redis_connection_mark_healthy(owner->connection);
  assert_int_equal(loop_logged(&owner->loop, "again after"), 1);
  (void)away_ms(owner, "OOM no room"); /* another outage */
  redis_connection_mark_healthy(owner->connection);
  assert_int_equal(loop_logged(&owner->loop, "OOM no room"), 2);
  assert_int_equal(loop_logged(&owner->loop, "again after 0."), 1);
}

READY_TEST(an_error_that_comes_and_goes_is_logged_every_minute) {
  for (int times = 0; times < 3; times++) {
    reconnects_on(owner, "OOM no room");
    redis_connection_mark_healthy(owner->connection);
    virtual_time_ms += 20000;
  }
  assert_int_equal(loop_logged(&owner->loop, "refuses for now: OOM"), 1);
  assert_int_equal(loop_logged(&owner->loop, "again after"), 1);
  reconnects_on(owner, "OOM no room");
  redis_connection_mark_healthy(owner->connection);
  assert_int_equal(loop_logged(&owner->loop, "refuses for now: OOM"), 2);
  assert_int_equal(loop_logged(&owner->loop, "again after"), 2);
}

/* --- redirections ----------------------------------------------------------------------------- */

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

/* Two nodes redirect to each other. */
MOVED_TEST(a_circle_of_redirections_ends_with_a_pause) {
  becomes_ready(owner);
  for (int i = 0; i < ENDPOINT_REDIRECTS_MAX; i++)
    reconnects_on(owner, moved);
  expect_connections(owner, 1, ENDPOINT_REDIRECTS_MAX);
  int64_t start_ms = virtual_time_ms;
  reconnects_on(owner, moved);
  assert_true(virtual_time_ms - start_ms >= REDIS_CONNECTION_PAUSE_MIN_MS / 2 - 10);
  expect_connections(owner, 2, ENDPOINT_REDIRECTS_MAX);
}
