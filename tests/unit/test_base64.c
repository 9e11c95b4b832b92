#include "base/base64.h"
#include "tests/test.h"

/* Decodes `size` bytes at a time. */
static ssize_t decode_by(size_t size, const char *text, size_t length, char *out) {
  struct base64_reader reader = base64_reader(text, length);
  ssize_t n, total = 0;
  while ((n = base64_read(&reader, out + total, size)) > 0)
    total += n;
  if (n < 0)
    return -1;
  assert_int_equal(base64_read(&reader, out + total, size), 0); /* and again */
  return total;
}

/* RFC 4648, section 10. */
TEST(the_test_vectors_of_the_standard_pass) {
  static const char *const rows[][2] = {{"", ""},
                                        {"f", "Zg=="},
                                        {"fo", "Zm8="},
                                        {"foo", "Zm9v"},
                                        {"foob", "Zm9vYg=="},
                                        {"fooba", "Zm9vYmE="},
                                        {"foobar", "Zm9vYmFy"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t length = strlen(rows[i][0]), encoded = strlen(rows[i][1]);
    char out[16], back[16];
    assert_int_equal(base64_length(length), encoded);
    *base64_encode(out, rows[i][0], length) = '\0';
    assert_string_equal(out, rows[i][1]);
    assert_int_equal(decode_by(3, out, encoded, back), length);
    assert_memory_equal(back, rows[i][0], length);
  }
}
