#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/types.h>

#include <cmocka.h>

#include "base/random.h"

/* Stands before the C library's own. */
static bool refuses;

ssize_t getrandom(void *out, size_t size, unsigned flags) {
  (void)flags;
  uint8_t *bytes = out;
  if (refuses) {
    errno = ENOSYS;
    return -1;
  }
  for (size_t i = 0; i < size; i++)
    bytes[i] = (uint8_t)(i + 1);
  return (ssize_t)size;
}

static void it_is_the_kernels(void **state) {
  (void)state;
  static const uint8_t bytes[sizeof(uint64_t)] = {1, 2, 3, 4, 5, 6, 7, 8};
  uint64_t number = random_u64();
  assert_memory_equal(&number, bytes, sizeof bytes);
}

static void without_the_system_call_they_differ_too(void **state) {
  (void)state;
  refuses = true;
  uint64_t first = random_u64();
  assert_true(first != random_u64());
  assert_true(first >> 32 != 0 || random_u64() >> 32 != 0);
  refuses = false;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_the_kernels),
      cmocka_unit_test(without_the_system_call_they_differ_too),
  };
  return cmocka_run_group_tests_name("random_number", tests, NULL, NULL);
}
