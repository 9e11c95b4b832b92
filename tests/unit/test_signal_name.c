#include "base/printable.h"
#include "tests/test.h"

TEST(signals_have_their_names) {
  assert_string_equal(printable_signal(SIGTERM), "SIGTERM");
  assert_string_equal(printable_signal(SIGHUP), "SIGHUP");
  assert_string_equal(printable_signal(SIGKILL), "SIGKILL");
  assert_string_equal(printable_signal(SIGSYS), "SIGSYS");
}

TEST(others_have_none) {
  assert_string_equal(printable_signal(0), "another signal");
  assert_string_equal(printable_signal(-1), "another signal");
  assert_string_equal(printable_signal(SIGRTMIN), "another signal");
  assert_string_equal(printable_signal(1000), "another signal");
}
