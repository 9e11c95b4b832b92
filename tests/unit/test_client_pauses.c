/* How long a client pauses before it reconnects, and what it logs, in virtual time. */

#include "agent/doors/redis/client/backoff.h"
#include "tests/support/client_owner.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

/* The connection is lost, or dropped for this reason; returns how long it takes to be ready again.
 */
static int64_t away_ms(struct client_owner *owner, const char *why) {
  int64_t start_ms = virtual_time_ms;
  recorder_reset(&owner->recorder);
  if (why != NULL)
    client_reconnect(owner->client, why);
  else
    fake_redis_close_connection(owner->server);
  client_owner_expect(owner, "lost connected ready");
  return virtual_time_ms - start_ms;
}

static void is_refused(struct client_owner *owner, const char *text) {
  recorder_reset(&owner->recorder);
  assert_true(client_recover(owner->client, text));
  client_owner_expect(owner, "lost connected ready");
}

/* Half of a pause is random. Timers are some milliseconds early: the loop's clock is a coarse one.
 */
CLIENT_TEST(pauses_double_until_a_reply_is_useful) {
  for (int pause_ms = BACKOFF_PAUSE_MIN_MS; pause_ms <= 16 * BACKOFF_PAUSE_MIN_MS; pause_ms *= 2)
    assert_true(away_ms(owner, NULL) >= pause_ms / 2 - 10);
  client_mark_healthy(owner->client);
  assert_true(away_ms(owner, NULL) < 16 * BACKOFF_PAUSE_MIN_MS); /* half of what would be next */
}

/* A handshake alone does not end an outage. */
CLIENT_TEST(the_same_reason_is_logged_once) {
  for (int times = 0; times < 3; times++)
    (void)away_ms(owner, "OOM no room");
  assert_int_equal(client_owner_logged(owner, " lost: "), 1);
  assert_int_equal(client_owner_logged(owner, "OOM no room"), 1);
  assert_int_equal(client_owner_logged(owner, "reconnecting"), 1);
  (void)away_ms(owner, "LOADING it is"); /* another reason */
  (void)away_ms(owner, "LOADING it is");
  assert_int_equal(client_owner_logged(owner, " lost: "), 2);
  assert_int_equal(client_owner_logged(owner, "LOADING it is"), 1);
}

CLIENT_TEST(an_outage_ends_with_a_useful_reply) {
  client_mark_healthy(owner->client);
  assert_int_equal(client_owner_logged(owner, "again"), 0); /* there was none */
  (void)away_ms(owner, "OOM no room");
  virtual_time_ms += 100000;
  (void)away_ms(owner, "OOM no room"); /* since the first time */
  client_mark_healthy(owner->client);
  assert_int_equal(client_owner_logged(owner, "again after 10"), 1);
  client_mark_healthy(owner->client);
  assert_int_equal(client_owner_logged(owner, "again after"), 1);
  (void)away_ms(owner, "OOM no room"); /* another outage */
  client_mark_healthy(owner->client);
  assert_int_equal(client_owner_logged(owner, "OOM no room"), 2);
  assert_int_equal(client_owner_logged(owner, "again after 0."), 1);
}

CLIENT_TEST(an_error_that_lasts_is_logged_once) {
  for (int times = 0; times < 4; times++) {
    is_refused(owner, times % 2 == 0 ? "OOM no room" : "OOM not yet"); /* the kind counts */
    virtual_time_ms += 100000;
  }
  assert_int_equal(client_owner_logged(owner, "refuses for now: OOM"), 1);
  is_refused(owner, "MISCONF no disk"); /* another reason */
  assert_int_equal(client_owner_logged(owner, "refuses for now"), 2);
  client_mark_healthy(owner->client);
  assert_int_equal(client_owner_logged(owner, "again after 40"), 1);
}

/* A minute has to lie between two that are logged. */
CLIENT_TEST(an_error_that_comes_and_goes_is_logged_every_minute) {
  for (int times = 0; times < 3; times++) {
    is_refused(owner, "OOM no room");
    client_mark_healthy(owner->client);
    virtual_time_ms += 20000;
  }
  assert_int_equal(client_owner_logged(owner, "refuses for now: OOM"), 1);
  assert_int_equal(client_owner_logged(owner, "again after"), 1);
  is_refused(owner, "OOM no room");
  client_mark_healthy(owner->client);
  assert_int_equal(client_owner_logged(owner, "refuses for now: OOM"), 2);
  assert_int_equal(client_owner_logged(owner, "again after"), 2);
}
