#include "base/hash.h"
#include "tests/test.h"

/* The values are those that the authors of FNV-1a publish with it. */
TEST(it_is_fnv_1a) {
  assert_true(hash_bytes("", 0) == UINT64_C(0xcbf29ce484222325));
  assert_true(hash_bytes("a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
  assert_true(hash_bytes("b", 1) == UINT64_C(0xaf63df4c8601f1a5));
  assert_true(hash_bytes("foobar", 6) == UINT64_C(0x85944171f73967e8));
}

TEST(every_byte_counts) {
  assert_true(hash_bytes("a\0b", 3) != hash_bytes("a\0c", 3));
  assert_true(hash_bytes("a\0", 2) != hash_bytes("a", 1));
  assert_true(hash_bytes("ab", 2) != hash_bytes("ba", 2));
  assert_true(hash_bytes("ab", 1) == hash_bytes("a", 1));
  /* A byte with its highest bit is not negative. */
  assert_true(hash_bytes("\xff", 1) == UINT64_C(0xaf64724c8602eb6e));
}
