#include "agent/doors/files/json_prefix.h"

#include "base/buffer.h"
#include "tests/support/quoted.h"
#include "tests/test.h"

struct row {
  const char *text; /* as in quoted.h */
  enum json_prefix expected;
  int at; /* -1: its length */
};

static void expect(const struct row *row) {
  const char *text = quoted(row->text);
  size_t length = strlen(text), at = 0;
  char *exact = malloc(length + 1); /* so that a sanitizer sees a read beyond it */
  assert_non_null(exact);
  memcpy(exact, text, length);
  enum json_prefix found = json_prefix_scan(exact, length, &at);
  free(exact);
  if (found != row->expected || at != (row->at < 0 ? length : (size_t)row->at))
    fail_msg("`%s`: %d at %zu", text, (int)found, at);
}

static void expect_rows(const struct row *rows, size_t count) {
  for (size_t i = 0; i < count; i++)
    expect(&rows[i]);
}

TEST(an_object_is_whole) {
  static const struct row rows[] = {
      {"{}", JSON_PREFIX_WHOLE, -1},
      {" \t\r\n{ } \n", JSON_PREFIX_WHOLE, -1},
      {"{'a':1,'b':[true,false,null,-1.5e+3,'x',{},[]]}", JSON_PREFIX_WHOLE, -1},
      {"{'a':'\\u00e4\\n\\\"\xC3\xA4'}", JSON_PREFIX_WHOLE, -1},
  };
  expect_rows(rows, sizeof rows / sizeof *rows);
}

TEST(each_beginning_of_an_object_is_short) {
  const char *text = quoted("\n{'a':[1,{'b':'\\u00e4\\\\\xE2\x82\xAC'},tr`e],'c':null}");
  char copy[128];
  (void)snprintf(copy, sizeof copy, "%s", text);
  *strchr(copy, '\'') = 'u';
  size_t at, whole = strlen(copy);
  for (size_t length = 0; length < whole; length++)
    if (json_prefix_scan(copy, length, &at) != JSON_PREFIX_SHORT)
      fail_msg("%zu bytes of `%s` are not short", length, copy);
  assert_int_equal(json_prefix_scan(copy, whole, &at), JSON_PREFIX_WHOLE);
}

TEST(what_no_bytes_can_mend_is_broken) {
  static const struct row rows[] = {
      {"[", JSON_PREFIX_BROKEN, 0},
      {"1", JSON_PREFIX_BROKEN, 0},
      {"x", JSON_PREFIX_BROKEN, 0},
      {"{}{", JSON_PREFIX_BROKEN, 2},
      {"{} x", JSON_PREFIX_BROKEN, 3},
      {"{,", JSON_PREFIX_BROKEN, 1},
      {"{'a',", JSON_PREFIX_BROKEN, 4},
      {"{'a':]", JSON_PREFIX_BROKEN, 5},
      {"{'a':1]", JSON_PREFIX_BROKEN, 6},
      {"{'a':1,}", JSON_PREFIX_BROKEN, 7},
      {"{'a':[1,]", JSON_PREFIX_BROKEN, 8},
      {"{'a':[1}", JSON_PREFIX_BROKEN, 7},
      {"{'a':trux", JSON_PREFIX_BROKEN, 8},
      {"{'a':'\n", JSON_PREFIX_BROKEN, 6},
      {"{'a':'\\x", JSON_PREFIX_BROKEN, 7},
      {"{'a':'\\u00g", JSON_PREFIX_BROKEN, 10},
      {"{'a':'\xFF", JSON_PREFIX_BROKEN, 6},
      {"{'a':'\xC3'", JSON_PREFIX_BROKEN, 6},
      {"\xEF\xBB\xBF{}", JSON_PREFIX_BROKEN, 0},
  };
  expect_rows(rows, sizeof rows / sizeof *rows);
}

TEST(it_is_64_levels_deep_at_most) {
  struct buffer text = {0};
  size_t at;
  buffer_add_string(&text, "{\"a\":");
  for (int i = 0; i < 63; i++)
    buffer_add_string(&text, "[");
  assert_int_equal(json_prefix_scan(text.bytes, text.length, &at), JSON_PREFIX_SHORT);
  buffer_add_string(&text, "[");
  assert_int_equal(json_prefix_scan(text.bytes, text.length, &at), JSON_PREFIX_BROKEN);
  buffer_release(&text);
}
