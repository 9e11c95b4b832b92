#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/doors/redis/net/url_text.h"

static void a_beginning_has_no_case(void **state) {
  (void)state;
  assert_true(url_text_begins("Redis://h", "redis://"));
  assert_true(url_text_begins("h", ""));
  assert_false(url_text_begins("redis:/", "redis://"));
}

static void a_number_is_digits_and_no_more(void **state) {
  (void)state;
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

static void what_is_encoded_is_decoded(void **state) {
  (void)state;
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

static void a_value_stands_behind_its_whole_name(void **state) {
  (void)state;
  assert_int_equal(url_text_value("user=u", "user"), 5);
  assert_int_equal(url_text_value("User  = u", "user"), 7);
  assert_int_equal(url_text_value("users=u", "user"), 0);
  assert_int_equal(url_text_value("use=u", "user"), 0);
  assert_int_equal(url_text_value("user", "user"), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_beginning_has_no_case),
      cmocka_unit_test(a_number_is_digits_and_no_more),
      cmocka_unit_test(what_is_encoded_is_decoded),
      cmocka_unit_test(a_value_stands_behind_its_whole_name),
  };
  return cmocka_run_group_tests_name("url_text", tests, NULL, NULL);
}
