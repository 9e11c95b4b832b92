#include <signal.h>

#include "base/signal_name.h"
#include "tests/test.h"

TEST(signals_have_their_names) {
  assert_string_equal(signal_name(SIGTERM), "SIGTERM");
  assert_string_equal(signal_name(SIGHUP), "SIGHUP");
  assert_string_equal(signal_name(SIGKILL), "SIGKILL");
  assert_string_equal(signal_name(SIGSYS), "SIGSYS");
}

TEST(others_have_none) {
  assert_string_equal(signal_name(0), "another signal");
  assert_string_equal(signal_name(-1), "another signal");
  assert_string_equal(signal_name(SIGRTMIN), "another signal");
  assert_string_equal(signal_name(1000), "another signal");
}
