#include "base/decimal.h"

size_t decimal_length(uint64_t number) {
  size_t digits = 1;
  for (; number >= 10; number /= 10)
    digits++;
  return digits;
}

char *decimal_write_padded(char *out, uint64_t number, size_t digits) {
  for (size_t i = digits; i-- > 0; number /= 10)
    out[i] = (char)('0' + number % 10);
  return out + digits;
}

char *decimal_write(char *out, uint64_t number) {
  return decimal_write_padded(out, number, decimal_length(number));
}
