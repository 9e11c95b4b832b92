/* How long a link stays away before it comes back; what it takes for the time is the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/clock.h"
#include "tests/support/link_owner.h"
#include "tests/support/wait.h"

static int64_t ahead_ms;

int64_t clock_monotonic_ms(void) {
  return wait_now_ms() + ahead_ms;
}

int64_t clock_unix_ms(void) {
  return 0;
}

/* Loses the connection; how long it takes until it is back. */
static int64_t away_ms(struct link_owner *owner) {
  int64_t start_ms = wait_now_ms();
  owner->up = owner->down = 0;
  owner->answered = 0;
  fake_redis_close_connection(owner->server);
  assert_true(loop_until(&owner->loop, loop_is_counted, &owner->down));
  link_owner_comes_up(owner);
  return wait_now_ms() - start_ms;
}

/* Half of a pause is random. Timers are some milliseconds early: the loop's clock is a coarse one.
 */
static void they_double_until_a_connection_has_lasted(void **state) {
  struct link_owner *owner = *state;
  ahead_ms = 0;
  link_owner_start(owner, SIZE_MAX);
  link_owner_comes_up(owner);
  for (int pause_ms = LINK_PAUSE_MIN_MS; pause_ms <= 16 * LINK_PAUSE_MIN_MS; pause_ms *= 2)
    assert_true(away_ms(owner) >= pause_ms / 2 - 10);
  ahead_ms += LINK_PAUSE_MAX_MS + 1;
  assert_true(away_ms(owner) < 16 * LINK_PAUSE_MIN_MS); /* half of what would be next */
  assert_int_equal(owner->failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(they_double_until_a_connection_has_lasted, link_owner_set_up,
                                      link_owner_tear_down),
  };
  return cmocka_run_group_tests_name("link_pauses", tests, NULL, NULL);
}
