#include "agent/doors/redis/net/url_text.h"
#include "tests/test.h"

TEST(a_beginning_has_no_case) {
  assert_true(url_text_begins("Redis://h", "redis://"));
  assert_true(url_text_begins("h", ""));
  assert_false(url_text_begins("redis:/", "redis://"));
}

TEST(a_number_is_digits_and_no_more) {
  static const struct {
    const char *text;
    unsigned most;
    int number; /* -1: it is none */
  } rows[] = {{"0", 0, 0},
              {"007", 9, 7},
              {"65535", 65535, 65535},
              {"65536", 65535, -1},
              {"", 9, -1},
              {"+1", 9, -1},
              {"-1", 9, -1},
              {" 1", 9, -1},
              {"1x", 9, -1},
              {"999999999", ~0U, 999999999},
              {"1000000000", ~0U, -1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    unsigned number = 1;
    bool is_one = url_text_number(rows[i].text, strlen(rows[i].text), rows[i].most, &number);
    assert_int_equal(is_one, rows[i].number >= 0);
    if (is_one)
      assert_int_equal(number, rows[i].number);
  }
  unsigned number;
  assert_true(url_text_number("123", 2, 99, &number));
  assert_int_equal(number, 12);
}

TEST(what_is_encoded_is_decoded) {
  static const struct {
    const char *text;
    const char *decoded; /* NULL: malformed */
  } rows[] = {{"", ""},      {"a+b", "a+b"}, {"%41%4a%4A", "AJJ"}, {"%2525", "%25"}, {"%", NULL},
              {"a%4", NULL}, {"%4g", NULL},  {"%g4", NULL},        {"a%00b", NULL}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *decoded = url_text_decode(rows[i].text, strlen(rows[i].text));
    assert_int_equal(decoded == NULL, rows[i].decoded == NULL);
    if (decoded != NULL)
      assert_string_equal(decoded, rows[i].decoded);
    free(decoded);
  }
  assert_null(url_text_decode("%41", 2));
}

TEST(a_value_stands_behind_its_whole_name) {
  assert_int_equal(url_text_value("user=u", "user"), 5);
  assert_int_equal(url_text_value("User  = u", "user"), 7);
  assert_int_equal(url_text_value("users=u", "user"), 0);
  assert_int_equal(url_text_value("use=u", "user"), 0);
  assert_int_equal(url_text_value("user", "user"), 0);
}
