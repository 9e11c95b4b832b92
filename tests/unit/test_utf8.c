#include "base/utf8.h"
#include "tests/test.h"

/*
 * The reference: every code point, encoded by the book. `whole` and `starts` say of up to three
 * bytes, read as one number, whether they are a sequence and whether one begins with them.
 */
struct reference {
  bool whole[4][1 << 24];
  bool starts[4][1 << 24];
};

static size_t encode(unsigned char out[4], unsigned code) {
  if (code < 0x80) {
    out[0] = (unsigned char)code;
    return 1;
  }
  size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (size_t i = n - 1; i > 0; i--, code >>= 6)
    out[i] = (unsigned char)(0x80 | (code & 0x3F));
  static const unsigned char marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
  out[0] = (unsigned char)(marks[n] | code);
  return n;
}

static unsigned number(const unsigned char *bytes, size_t n) {
  unsigned value = 0;
  for (size_t i = 0; i < n; i++)
    value = value << 8 | bytes[i];
  return value;
}

static int build_reference(void **state) {
  struct reference *reference = calloc(1, sizeof *reference);
  if (reference == NULL)
    return -1;
  for (unsigned code = 0; code <= 0x10FFFF; code++) {
    if (code >= 0xD800 && code <= 0xDFFF)
      continue;
    unsigned char bytes[4];
    size_t n = encode(bytes, code);
    if (n < 4)
      reference->whole[n][number(bytes, n)] = true;
    for (size_t i = 1; i < n; i++)
      reference->starts[i][number(bytes, i)] = true;
  }
  *state = reference;
  return 0;
}

static int free_reference(void **state) {
  free(*state);
  return 0;
}

/* The length of the sequence at the start of up to three bytes, or 0 and what one replacement
 * takes. */
static size_t slow_sequence(const struct reference *reference, const unsigned char *bytes,
                            size_t length, size_t *broken) {
  *broken = 1;
  for (size_t n = 1; n <= length; n++) {
    if (reference->whole[n][number(bytes, n)])
      return n;
    if (reference->starts[n][number(bytes, n)])
      *broken = n;
  }
  return 0;
}

TEST(every_sequence_of_up_to_three_bytes_is_classified) {
  const struct reference *reference = *state;
  for (unsigned value = 0; value < 1 << 24; value++) {
    unsigned char bytes[3] = {(unsigned char)(value >> 16), (unsigned char)(value >> 8),
                              (unsigned char)value};
    /* The third byte matters in a row of three only. */
    size_t shortest = (value & 0xFF) == 0 ? ((value & 0xFF00) == 0 ? 1 : 2) : 3;
    for (size_t length = shortest; length <= 3; length++) {
      size_t broken;
      size_t expected = slow_sequence(reference, bytes, length, &broken);
      size_t got = utf8_sequence((const char *)bytes, length);
      if (got != expected)
        fail_msg("%06x: %zu bytes, expected %zu", value, got, expected);
      if (got == 0 && utf8_broken((const char *)bytes, length) != broken)
        fail_msg("%06x: not %zu broken bytes", value, broken);
    }
  }
}

TEST(every_code_point_is_classified) {
  for (unsigned code = 0; code <= 0x110000; code++) {
    unsigned char bytes[4];
    size_t n = encode(bytes, code);
    bool legal = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    assert_int_equal(utf8_sequence((const char *)bytes, 4), legal ? n : 0);
    for (size_t part = 0; legal && part < n; part++) {
      assert_int_equal(utf8_sequence((const char *)bytes, part), 0);
      if (part > 0) {
        assert_int_equal(utf8_broken((const char *)bytes, part), part);
        assert_int_equal(utf8_cut((const char *)bytes, part), 0);
      }
    }
    if (legal)
      assert_int_equal(utf8_cut((const char *)bytes, n), n);
  }
}

TEST(the_valid_prefix_ends_at_the_first_bad_byte) {
  static const char *const bad[] = {"\x80", "\xC0\x80", "\xE2\x82", "\xED\xA0\x80", "\xFF"};
  static const char *const good[] = {"", "a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
  for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
    for (size_t g = 0; g < sizeof good / sizeof good[0]; g++) {
      for (size_t ascii = 0; ascii < 20; ascii++) {
        char text[64];
        memset(text, 'x', ascii);
        strcpy(text + ascii, good[g]);
        size_t length = strlen(good[g]) + ascii;
        assert_int_equal(utf8_valid_prefix(text, length), length);
        strcpy(text + length, bad[b]);
        assert_int_equal(utf8_valid_prefix(text, length + strlen(bad[b])), length);
        strcat(text, "and more behind it");
        assert_int_equal(utf8_valid_prefix(text, strlen(text)), length);
      }
    }
  }
  assert_int_equal(utf8_valid_prefix("a\0b", 3), 3);
  assert_int_equal(utf8_valid_prefix(NULL, 0), 0);
}

TEST(a_cut_leaves_sequences_whole) {
  static const struct {
    const char *text;
    size_t cut;
  } rows[] = {
      {"", 0},
      {"abc", 3},
      {"ab\xC3", 2},
      {"ab\xC3\xA9", 4},
      {"ab\xE2\x82", 2},
      {"ab\xE2\x82\xAC", 5},
      {"ab\xF0\x9F\x98", 2},
      {"ab\xF0\x9F\x98\x80", 6},
      /* Invalid bytes are no reason to cut. */
      {"ab\x80", 3},
      {"ab\x80\x80\x80\x80", 6},
      {"ab\xE2\x82\x80\x80", 6},
      {"ab\xFF", 3},
      {"ab\xC0", 3},
      {"ab\xE0\x80", 4},
      {"ab\xED\xA0", 4},
      {"ab\xF4\x90", 4},
      {"\xE2\x82", 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    assert_int_equal(utf8_cut(rows[i].text, strlen(rows[i].text)), rows[i].cut);
}

TEST_GROUP(build_reference, free_reference)
