#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"

/* The values are those that the authors of FNV-1a publish with it. */
static void it_is_fnv_1a(void **state) {
  (void)state;
  assert_true(hash_bytes("", 0) == UINT64_C(0xcbf29ce484222325));
  assert_true(hash_bytes("a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
  assert_true(hash_bytes("b", 1) == UINT64_C(0xaf63df4c8601f1a5));
  assert_true(hash_bytes("foobar", 6) == UINT64_C(0x85944171f73967e8));
}

static void every_byte_counts(void **state) {
  (void)state;
  assert_true(hash_bytes("a\0b", 3) != hash_bytes("a\0c", 3));
  assert_true(hash_bytes("a\0", 2) != hash_bytes("a", 1));
  assert_true(hash_bytes("ab", 2) != hash_bytes("ba", 2));
  assert_true(hash_bytes("ab", 1) == hash_bytes("a", 1));
  /* A byte with its highest bit is not negative. */
  assert_true(hash_bytes("\xff", 1) == UINT64_C(0xaf64724c8602eb6e));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_fnv_1a),
      cmocka_unit_test(every_byte_counts),
  };
  return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
