#include <errno.h>
#include <sys/random.h>

#include "base/random.h"
#include "tests/test.h"

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

TEST(it_is_the_kernels) {
  static const uint8_t bytes[sizeof(uint64_t)] = {1, 2, 3, 4, 5, 6, 7, 8};
  uint64_t number = random_u64();
  assert_memory_equal(&number, bytes, sizeof bytes);
}

TEST(without_the_system_call_they_differ_too) {
  refuses = true;
  uint64_t first = random_u64();
  assert_true(first != random_u64());
  assert_true(first >> 32 != 0 || random_u64() >> 32 != 0);
  refuses = false;
}
