#include "wire/json.h"

#include "base/buffer.h"
#include "tests/support/quoted.h"
#include "tests/test.h"
#include "wire/json.h"

/* Parses an exact copy, for the sanitizer. */
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

TEST(a_nul_is_marked_and_restored) {
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

/* `refusal` is NULL if the text is accepted. */
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
