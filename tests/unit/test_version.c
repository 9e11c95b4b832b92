#include <hiredis/hiredis.h>

#include "agent/doors/redis/net/version.h"
#include "tests/test.h"

TEST(names_the_library_and_three_numbers) {
  char expected[64];
  (void)snprintf(expected, sizeof expected, "hiredis %d.%d.%d", HIREDIS_MAJOR, HIREDIS_MINOR,
                 HIREDIS_PATCH);
  assert_string_equal(redis_client_version(), expected);
}

TEST(is_new_enough) {
  int major;
  int minor;
  assert_int_equal(sscanf(redis_client_version(), "hiredis %d.%d.", &major, &minor), 2);
  assert_true(major > 1 || (major == 1 && minor >= 2));
}
