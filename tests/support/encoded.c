#include "tests/support/encoded.h"

#include "tests/test.h"

char *encoded(const void *bytes, size_t length) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *from = bytes;
  char *text = malloc((length + 2) / 3 * 4 + 1);
  assert_non_null(text);
  char *out = text;
  for (size_t i = 0; i < length; i += 3) {
    unsigned char group[3] = {from[i], i + 1 < length ? from[i + 1] : 0,
                              i + 2 < length ? from[i + 2] : 0};
    *out++ = alphabet[group[0] >> 2];
    *out++ = alphabet[(group[0] & 3) << 4 | group[1] >> 4];
    *out++ = i + 1 < length ? alphabet[(group[1] & 15) << 2 | group[2] >> 6] : '=';
    *out++ = i + 2 < length ? alphabet[group[2] & 63] : '=';
  }
  *out = '\0';
  return text;
}
