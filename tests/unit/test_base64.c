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

/* The rules, one after the other, without optimization. */
static ssize_t decode_plainly(const char *text, size_t length, char *out) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char dense[16];
  size_t count = 0, pads = 0;
  for (size_t i = 0; i < length; i++)
    if (text[i] == '\0' || strchr(" \t\r\n", text[i]) == NULL)
      dense[count++] = text[i];
  while (pads < count && dense[count - 1 - pads] == '=')
    pads++;
  if (count % 4 != 0 || pads > 2)
    return -1;
  for (size_t i = 0; i < count - pads; i++)
    if (dense[i] == '\0' || strchr(alphabet, dense[i]) == NULL)
      return -1;
  size_t bytes = count / 4 * 3 - pads;
  memset(out, 0, 16);
  for (size_t bit = 0; bit < bytes * 8; bit++) {
    unsigned value = (unsigned)(strchr(alphabet, dense[bit / 6]) - alphabet);
    out[bit / 8] =
        (char)((unsigned char)out[bit / 8] | (value >> (5 - bit % 6) & 1) << (7 - bit % 8));
  }
  return (ssize_t)bytes;
}

/* Every text of at most seven of these characters. */
TEST(all_short_texts_are_as_the_rules_say) {
  static const char characters[] = {'A', '/', 'k', '=', ' ', '-', '\v', '\0'};
  enum { KINDS = sizeof characters, LONGEST = 7 };
  char out[16], expected[16];
  for (size_t length = 0, count = 1; length <= LONGEST; length++, count *= KINDS) {
    char *text = malloc(length > 0 ? length : 1); /* exact, for the sanitizer */
    for (size_t number = 0; number < count; number++) {
      size_t rest = number;
      for (size_t i = 0; i < length; i++, rest /= KINDS)
        text[i] = characters[rest % KINDS];
      ssize_t plain = decode_plainly(text, length, expected);
      ssize_t decoded = decode_by(3 + number % 6, text, length, out);
      if (decoded != plain || (plain > 0 && memcmp(out, expected, (size_t)plain) != 0))
        fail_msg("%.*s: %zd, not %zd", (int)length, text, decoded, plain);
    }
    free(text);
  }
}

/* Every value of every byte of a group, at every place. */
TEST(all_bytes_survive_a_round_trip) {
  enum { LENGTH = 65536 + 3 };
  static char bytes[LENGTH], text[(LENGTH + 2) / 3 * 4], back[LENGTH + 3];
  for (size_t i = 0; i < LENGTH; i++)
    bytes[i] = (char)(i * 31 >> 3);
  for (size_t length = LENGTH - 3; length <= LENGTH; length++) {
    char *end = base64_encode(text, bytes, length);
    assert_int_equal(end - text, base64_length(length));
    for (size_t size = LENGTH; size > 2; size /= 7) {
      assert_int_equal(decode_by(size, text, (size_t)(end - text), back), length);
      assert_memory_equal(back, bytes, length);
    }
  }
}
