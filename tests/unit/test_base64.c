#include <stdlib.h>

#include "base/base64.h"
#include "tests/test.h"

/* So many bytes at a time. */
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

/* In every number of reads; of exactly its size, so that the sanitizer sees one byte more. */
static ssize_t decode(const char *text, size_t length, char *out) {
  enum { LONGEST = 64 };
  char *copy = malloc(length > 0 ? length : 1), *bytes = malloc(LONGEST);
  assert_true(copy != NULL && bytes != NULL && length < LONGEST / 2);
  memcpy(copy, text, length);
  ssize_t decoded = decode_by(LONGEST / 2, copy, length, bytes);
  if (decoded > 0)
    memcpy(out, bytes, (size_t)decoded);
  for (size_t size = 3; size < 8; size++) {
    assert_int_equal(decode_by(size, copy, length, bytes), decoded);
    assert_true(decoded <= 0 || memcmp(bytes, out, (size_t)decoded) == 0);
  }
  free(copy);
  free(bytes);
  return decoded;
}

/* RFC 4648, section 10. */
TEST(the_vectors_of_the_standard) {
  static const char *const rows[][2] = {{"", ""},
                                        {"f", "Zg=="},
                                        {"fo", "Zm8="},
                                        {"foo", "Zm9v"},
                                        {"foob", "Zm9vYg=="},
                                        {"fooba", "Zm9vYmE="},
                                        {"foobar", "Zm9vYmFy"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t length = strlen(rows[i][0]), encoded = strlen(rows[i][1]);
    char *out = malloc(encoded + 1), back[16];
    assert_non_null(out);
    assert_int_equal(base64_length(length), encoded);
    *base64_encode(out, rows[i][0], length) = '\0';
    assert_string_equal(out, rows[i][1]);
    assert_int_equal(decode(out, encoded, back), length);
    assert_memory_equal(back, rows[i][0], length);
    free(out);
  }
}

static const struct {
  const char *text;
  size_t length; /* 0: strlen */
  const char *bytes;
  ssize_t expected; /* -1: not base64 */
} rows[] = {
    {"", 0, "", 0},
    {" \t\r\n", 0, "", 0},
    {"AAAA", 0, "\0\0\0", 3},
    {"AA==", 0, "\0", 1},
    {"AAA=", 0, "\0\0", 2},
    {"/+/+", 0, "\xFF\xEF\xFE", 3},
    {"Z m\t9\rv\n", 0, "foo", 3},
    {" Zg = = ", 0, "f", 1},
    {"Zm8\n=\n", 0, "fo", 2},
    {"Zm9v\r\nYmFy\r\n", 0, "foobar", 6},
    {"Zm9vYm\nFy", 0, "foobar", 6},
    /* Bits that are left over are dropped. */
    {"AB==", 0, "\0", 1},
    {"AAB=", 0, "\0\0", 2},
    {"A/==", 0, "\x03", 1},
    /* Padding is required. */
    {"A", 0, NULL, -1},
    {"AA", 0, NULL, -1},
    {"AA=", 0, NULL, -1},
    {"AAA", 0, NULL, -1},
    {"AAAAA", 0, NULL, -1},
    {"AAAAAA=", 0, NULL, -1},
    /* It ends the text, and is never alone. */
    {"=", 0, NULL, -1},
    {"==", 0, NULL, -1},
    {"====", 0, NULL, -1},
    {"A===", 0, NULL, -1},
    {"AA===", 0, NULL, -1},
    {"AAA==", 0, NULL, -1},
    {"AAAA=", 0, NULL, -1},
    {"AAAA====", 0, NULL, -1},
    {"AA=A", 0, NULL, -1},
    {"AA==AA==", 0, NULL, -1},
    {"AA==AAAA", 0, NULL, -1},
    {"AA==A", 0, NULL, -1},
    {"AA== =", 0, NULL, -1},
    {"=AAA", 0, NULL, -1},
    /* Nothing else is skipped or taken. */
    {"AA-A", 0, NULL, -1},
    {"AA_A", 0, NULL, -1},
    {"AA\vA", 0, NULL, -1},
    {"AAAA\v", 0, NULL, -1},
    {"AAAA\f", 0, NULL, -1},
    {"AAAA\xC2\xA0", 0, NULL, -1},
    {"AA\0A", 4, NULL, -1},
    {"AAAA\0", 5, NULL, -1},
    {"AA*=", 0, NULL, -1},
    {"hello!!!", 0, NULL, -1},
};
TEST(what_is_base64_and_what_is_not) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char out[16];
    size_t length = rows[i].length > 0 ? rows[i].length : strlen(rows[i].text);
    ssize_t decoded = decode(rows[i].text, length, out);
    if (decoded != rows[i].expected ||
        (decoded > 0 && memcmp(out, rows[i].bytes, (size_t)decoded) != 0))
      fail_msg("`%s`: %zd, not %zd", rows[i].text, decoded, rows[i].expected);
  }
}

/* The rules, one after the other, with no thought of speed. */
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

/* Each text of up to seven of these characters. */
TEST(all_short_texts_are_as_the_rules_say) {
  static const char characters[] = {'A', '/', 'k', '=', ' ', '-', '\0'};
  enum { KINDS = sizeof characters, LONGEST = 7 };
  char text[LONGEST], out[16], expected[16];
  for (size_t length = 0, count = 1; length <= LONGEST; length++, count *= KINDS) {
    for (size_t number = 0; number < count; number++) {
      size_t rest = number;
      for (size_t i = 0; i < length; i++, rest /= KINDS)
        text[i] = characters[rest % KINDS];
      ssize_t plain = decode_plainly(text, length, expected);
      ssize_t decoded = decode_by(3 + number % 6, text, length, out);
      if (decoded != plain || (plain > 0 && memcmp(out, expected, (size_t)plain) != 0))
        fail_msg("%.*s: %zd, not %zd", (int)length, text, decoded, plain);
    }
  }
}

/* Each value of each byte of a group, in each place. */
TEST(all_bytes_come_back) {
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
