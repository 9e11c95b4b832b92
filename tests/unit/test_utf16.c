#include "base/utf8.h"
#include "tests/test.h"

TEST(utf16_units_are_counted_as_decoded_from_utf8) {
  static const struct {
    const char *text;
    size_t units;
  } rows[] = {
      {"", 0},
      {"x", 1},
      {"12345678", 8},
      {"123456789", 9},
      {"\xC3\xA9", 1},
      {"\xE2\x82\xAC", 1},
      {"\xEF\xBF\xBD", 1},
      {"\xF0\x9F\x98\x80", 2},
      {"\xF4\x8F\xBF\xBF", 2},
      {"1234567\xF0\x9F\x98\x80"
       "12345678",
       17},
      /* Each maximal subpart is one U+FFFD. */
      {"\x80", 1},
      {"\xFF\xFF", 2},
      {"\xC3", 1},
      {"\xE2\x82", 1},
      {"\xE2\x82x", 2},
      {"\xF0\x9F\x98", 1},
      {"\xF0\x9F\x98\xF0\x9F\x98\x80", 3},
      {"\xED\xA0\x80", 3},
      {"\xF4\x90\x80\x80", 4},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t length = strlen(rows[i].text);
    char *copy = malloc(length + 1); /* exact, for the sanitizer */
    assert_non_null(copy);
    memcpy(copy + 1, rows[i].text, length);
    if (utf16_units(copy + 1, length) != rows[i].units)
      fail_msg("row %zu: %zu units", i, utf16_units(copy + 1, length));
    free(copy);
  }
}

TEST(a_nul_counts_as_one_unit) {
  assert_int_equal(utf16_units("a\0b", 3), 3);
}
