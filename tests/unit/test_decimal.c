#include <inttypes.h>

#include "base/decimal.h"
#include "tests/test.h"

static void expect(uint64_t number) {
  char expected[32];
  int length = snprintf(expected, sizeof expected, "%" PRIu64, number);
  char out[DECIMAL_LENGTH_MAX + 1];
  memset(out, '#', sizeof out);
  char *end = decimal_write(out, number);
  assert_int_equal(decimal_length(number), length);
  assert_int_equal(end - out, length);
  assert_memory_equal(out, expected, (size_t)length);
  assert_int_equal(*end, '#');
}

TEST(it_writes_what_printf_writes) {
  expect(0);
  expect(UINT64_MAX);
  for (uint64_t power = 1; power <= UINT64_MAX / 10; power *= 10) {
    expect(power * 10 - 1);
    expect(power * 10);
    expect(power * 10 + 1);
  }
}

TEST(the_longest_has_the_length_that_is_promised) {
  assert_int_equal(decimal_length(UINT64_MAX), DECIMAL_LENGTH_MAX);
}

TEST(padded_it_begins_with_zeros) {
  char out[8] = "#######";
  assert_ptr_equal(decimal_write_padded(out, 42, 4), out + 4);
  assert_memory_equal(out, "0042###", 7);
  (void)decimal_write_padded(out, 12345, 3); /* the last digits */
  assert_memory_equal(out, "345", 3);
}
