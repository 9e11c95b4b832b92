#include "wire/json_tree.h"

#include "base/buffer.h"
#include "tests/support/quoted.h"
#include "tests/test.h"
#include "wire/json_text.h"

/* Of a copy that ends where the text does, for the sanitizer. */
static cJSON *parse(const char *text, struct error *error) {
  text = quoted(text);
  size_t length = strlen(text);
  char *copy = malloc(length > 0 ? length : 1);
  assert_non_null(copy);
  memcpy(copy, text, length);
  cJSON *tree = json_tree_parse(copy, length, error);
  free(copy);
  return tree;
}

TEST(a_value_of_any_type_is_a_tree) {
  static const char *const texts[] = {
      "{}",
      " [1,{'a':null}]\r\n",
      "'a'",
      "-1.5e3",
      "true",
      "null",
      " \t\r\n[0,-0,10,-1.5,0.25,1e5,1E+5,1.0e-5,-0e0]",
      "\xEF\xBB\xBF{}",
      "['\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80','\\u00e9\\'\\\\\\/\\b']",
      "['0.12.3 -- \x7F']",
      "[true,false,null]",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct error error = {.text = "untouched"};
    cJSON *tree = parse(texts[i], &error);
    assert_non_null(tree);
    assert_string_equal(error.text, "untouched");
    cJSON_Delete(tree);
  }
}

TEST(what_is_not_one_value_is_refused) {
  static const struct {
    const char *texts; /* with a space between them */
    const char *error;
  } rows[] = {
      {"", "expected JSON, got what is broken or cut off near byte 0"},
      {"{'a':1,", "expected JSON, got what is broken or cut off near byte 6"},
      {"{}\n{}", "expected one object, got more behind it at byte 3"},
      {"['\\u0000',x]", "expected JSON, got what is broken or cut off near byte 10"},
      {"'\\u0000'\nx", "expected one object, got more behind it at byte 9"},
      {"['\x80']", "expected UTF-8, broken at byte 2"},
      {"'a\xC0\x80' '_\xED\xA0\x80'", "expected UTF-8, broken at byte 2"},
      {"['0123456789\xE2\x82", "expected UTF-8, broken at byte 12"},
      {"\xFF", "expected UTF-8, broken at byte 0"},
      {"['a\nb']", "expected JSON, got a raw control character 0x0a at byte 3"},
      {"['\x1F']", "expected JSON, got a raw control character 0x1f at byte 2"},
      {"[\x01]", "expected JSON, got a raw control character 0x01 at byte 1"},
      {"['\\u12'] ['\\uZZZZ'] ['\\u00e", "expected four hexadecimal digits after \\u at byte 2"},
      {"01 1. -", "expected a JSON number at byte 0"},
      {"[1,1.] [1,01,'\x80']", "expected a JSON number at byte 3"},
      {"[-01] [-.5] [-] [1e] [1e+] [1-2] [1.2.3]", "expected a JSON number at byte 1"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *text;
    for (size_t k = 0; (text = nth_word(rows[i].texts, k)) != NULL; k++) {
      struct error error = {.text = ""};
      assert_null(parse(text, &error));
      assert_string_equal(error.text, rows[i].error);
    }
  }
  struct error error;
  assert_null(json_tree_parse("[\"a\0b\"]", 7, &error));
  assert_string_equal(error.text, "expected JSON, got a raw control character 0x00 at byte 3");
}

TEST(a_nul_is_marked_and_put_back) {
  static const struct {
    const char *text, *marked;
  } rows[] = {{"'\\u0000'", JSON_TREE_NUL},
              {"'a\\u0000\\u0000b'", "a" JSON_TREE_NUL JSON_TREE_NUL "b"},
              {"'\\\\\\u0000'", "\\" JSON_TREE_NUL},
              {"'\\\\u0000'", "\\u0000"}, /* a backslash, and then the text u0000 */
              {"'\\u00001\\u0001'", JSON_TREE_NUL "1\1"}};
  struct error error;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    cJSON *tree = parse(rows[i].text, &error);
    assert_string_equal(cJSON_GetStringValue(tree), rows[i].marked);
    cJSON_Delete(tree);
  }
  char text[] = "a" JSON_TREE_NUL JSON_TREE_NUL "b" JSON_TREE_NUL;
  assert_int_equal(json_tree_unmark_nul(text), 5);
  assert_memory_equal(text, "a\0\0b\0", 6);
}

/* `refusal`: NULL for none. */
static void expect_counted(const char *begin, const char *part, size_t count, const char *end,
                           size_t expected, const char *refusal) {
  struct buffer text = {0};
  struct error error;
  size_t values;
  buffer_add_string(&text, begin);
  for (size_t i = 0; i < count; i++)
    buffer_add_string(&text, part);
  buffer_add_string(&text, end);
  cJSON *tree = json_tree_parse_counted(text.bytes, text.length, &values, &error);
  buffer_release(&text);
  if (refusal != NULL)
    assert_string_equal(error.text, refusal);
  assert_int_equal(tree != NULL, refusal == NULL);
  assert_int_equal(values, expected);
  cJSON_Delete(tree);
}

TEST(nesting_and_values_have_a_limit) {
  enum { MAX = JSON_TEXT_VALUES_MAX };
  expect_counted("", "[", 64, "", 64, "expected JSON, got what is broken or cut off near byte 63");
  expect_counted("", "[", 65, "", 65, "expected at most 64 levels of nesting, got more at byte 64");
  expect_counted("[1", ",[[]]", 1000, ",\"[[[[[[\"]", 3002, NULL);
  expect_counted("[1", ",1", MAX - 2, "]", MAX - 1, NULL);
  expect_counted("[1", ",1", MAX - 1, "]", MAX, "expected at most 200000 values, got more");
}
