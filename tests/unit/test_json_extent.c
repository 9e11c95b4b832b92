#include "wire/json_extent.h"

#include "tests/support/quoted.h"
#include "tests/test.h"

/* How much of the text the value takes; 0: it does not end. */
static size_t extent_of(const char *text) {
  struct json_extent extent = {0};
  size_t taken;
  bool ends = json_extent_take(&extent, text, strlen(text), &taken);
  if (!ends)
    assert_int_equal(taken, strlen(text));
  return ends ? taken : 0;
}

TEST(a_value_ends_with_its_last_bracket) {
  static const struct {
    const char *text;
    size_t extent;
  } rows[] = {{"{}", 2},           {"{} ", 2},        {"{}{}", 2},
              {" \r\n\t[1]\n", 7}, {"{'a':'}'}x", 9}, {"{'a\\'}':[{},{}]}x", 16},
              {"['\\\\']", 6},     {"[}", 2}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_int_equal(extent_of(quoted(rows[i].text)), rows[i].extent);
}

TEST(a_number_ends_with_its_line) {
  assert_int_equal(extent_of("42\n43\n"), 3);
}

TEST(other_values_end_with_their_last_byte) {
  assert_int_equal(extent_of("\n\"{\\\"\"\r\n"), 6);
  assert_int_equal(extent_of("null"), 4);
  assert_int_equal(extent_of(" true\n"), 5);
  assert_int_equal(extent_of("false,"), 5);
}

TEST(what_can_begin_no_value_ends_at_once) {
  assert_int_equal(extent_of("} {}\n"), 1);
  assert_int_equal(extent_of("echo hi"), 1);
}

TEST(a_byte_order_mark_is_no_value) {
  assert_int_equal(extent_of("\xEF\xBB\xBF{}"), 5);
  assert_int_equal(extent_of("\xEF\xBB"), 0);
}

TEST(what_is_open_does_not_end) {
  static const char *const texts[] = {"",         " \n", "{",   "[{}", "{\"}",
                                      "{\"\\\"}", "42",  "[[]", "\"x", "nul"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_int_equal(extent_of(texts[i]), 0);
}

TEST(it_may_come_byte_by_byte) {
  const char *text = quoted(" {'a':'\\'}',\n'b':[{}]}");
  struct json_extent extent = {0};
  size_t taken;
  for (size_t i = 0; i < strlen(text); i++)
    assert_int_equal(json_extent_take(&extent, text + i, 1, &taken), i + 1 == strlen(text));
}
