#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "agent/doors/redis/net/version.h"

static void names_the_library_and_three_numbers(void **state) {
  (void)state;
  char expected[64];
  (void)snprintf(expected, sizeof expected, "hiredis %d.%d.%d", HIREDIS_MAJOR, HIREDIS_MINOR,
                 HIREDIS_PATCH);
  assert_string_equal(redis_client_version(), expected);
}

static void is_new_enough(void **state) {
  (void)state;
  int major;
  int minor;
  assert_int_equal(sscanf(redis_client_version(), "hiredis %d.%d.", &major, &minor), 2);
  assert_true(major > 1 || (major == 1 && minor >= 2));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_the_library_and_three_numbers),
      cmocka_unit_test(is_new_enough),
  };
  return cmocka_run_group_tests_name("version", tests, NULL, NULL);
}
