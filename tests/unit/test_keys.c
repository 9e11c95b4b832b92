#include "agent/doors/redis/keys.h"
#include "tests/test.h"

TEST(the_names_are_those_of_the_contract) {
  struct keys keys;
  keys_init(&keys, "pipe-42");
  assert_string_equal(keys.in, "sandbox:pipe-42:in");
  assert_string_equal(keys.events, "sandbox:pipe-42:events");
  assert_string_equal(keys.results, "sandbox:pipe-42:results");
  assert_string_equal(keys.inflight, "sandbox:pipe-42:inflight");
  assert_string_equal(keys.started, "sandbox:pipe-42:started");
  assert_string_equal(keys.committed, "sandbox:pipe-42:committed");
  assert_string_equal(keys.heartbeat, "sandbox:pipe-42:heartbeat");
  keys_release(&keys);
  assert_null(keys.in);
  assert_null(keys.heartbeat);
}

TEST(the_job_id_is_used_verbatim) {
  struct keys keys;
  keys_init(&keys, "{pipe:42} %s");
  assert_string_equal(keys.in, "sandbox:{pipe:42} %s:in");
  assert_string_equal(keys.events, "sandbox:{pipe:42} %s:events");
  assert_string_equal(keys.results, "sandbox:{pipe:42} %s:results");
  assert_string_equal(keys.inflight, "sandbox:{pipe:42} %s:inflight");
  assert_string_equal(keys.started, "sandbox:{pipe:42} %s:started");
  assert_string_equal(keys.committed, "sandbox:{pipe:42} %s:committed");
  assert_string_equal(keys.heartbeat, "sandbox:{pipe:42} %s:heartbeat");
  keys_release(&keys);
  keys_init(&keys, "");
  assert_string_equal(keys.in, "sandbox::in");
  keys_release(&keys);
}
