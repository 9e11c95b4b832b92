/* The longest payload, by what the control group and the process' own limits say of the memory. */
#include <sys/resource.h>

#include "agent/payload_limit.h"
#include "tests/test.h"
#include "wire/step.h"

#define MIB ((uint64_t)1024 * 1024)

TEST(is_a_share_of_the_groups_limit) {
  assert_int_equal(payload_limit_for(UINT64_MAX), STEP_PAYLOAD_MAX);
  assert_int_equal(payload_limit_for(4096 * MIB), STEP_PAYLOAD_MAX);
  assert_int_equal(payload_limit_for(512 * MIB - 8), 64 * MIB - 1);
  assert_int_equal(payload_limit_for(64 * MIB), 8 * MIB);
  assert_int_equal(payload_limit_for(4096), PAYLOAD_LIMIT_MIN);
}

/* The least of them counts; while it is set nothing is allocated. */
TEST(so_is_that_of_the_process) {
  static const __rlimit_resource_t resources[] = {RLIMIT_AS, RLIMIT_DATA};
  for (size_t i = 0; i < sizeof resources / sizeof *resources; i++) {
    struct rlimit before;
    assert_int_equal(getrlimit(resources[i], &before), 0);
    struct rlimit limit = {.rlim_cur = 48 * MIB, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(resources[i], &limit), 0);
    size_t alone = payload_limit_for(UINT64_MAX), less = payload_limit_for(64 * MIB);
    limit.rlim_cur = 128 * MIB;
    int result = setrlimit(resources[i], &limit);
    size_t more = payload_limit_for(64 * MIB);
    assert_int_equal(setrlimit(resources[i], &before), 0);
    assert_int_equal(result, 0);
    assert_int_equal(alone, 6 * MIB);
    assert_int_equal(less, 6 * MIB);
    assert_int_equal(more, 8 * MIB);
  }
}
