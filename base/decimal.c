#include "base/decimal.h"

#include <string.h>

size_t decimal_length(uint64_t number) {
  for (size_t digits = 0;; digits += 4, number /= 10000) {
    if (number < 10)
      return digits + 1;
    if (number < 100)
      return digits + 2;
    if (number < 1000)
      return digits + 3;
    if (number < 10000)
      return digits + 4;
  }
}

/* Each division yields two digits. */
char *decimal_write_padded(char *out, uint64_t number, size_t digits) {
  static const char pairs[] = "0001020304050607080910111213141516171819"
                              "2021222324252627282930313233343536373839"
                              "4041424344454647484950515253545556575859"
                              "6061626364656667686970717273747576777879"
                              "8081828384858687888990919293949596979899";
  size_t i = digits;
  for (; i >= 2; number /= 100)
    memcpy(out + (i -= 2), pairs + 2 * (number % 100), 2);
  if (i > 0)
    out[0] = (char)('0' + number % 10);
  return out + digits;
}

char *decimal_write(char *out, uint64_t number) {
  return decimal_write_padded(out, number, decimal_length(number));
}
