#include "wire/json_tree.h"

#include "tests/support/quoted.h"
#include "tests/test.h"

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
  static const char *const texts[] = {"{}", " [1,{'a':null}]\r\n", "'a'", "-1.5e3", "true", "null"};
  struct error error;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    cJSON *tree = parse(texts[i], &error);
    assert_non_null(tree);
    cJSON_Delete(tree);
  }
}

TEST(what_is_not_one_value_is_refused) {
  static const struct {
    const char *text;
    const char *error;
  } rows[] = {
      {"", "payload: expected JSON, got what is broken or cut off near byte 0"},
      {"{'a':1,", "payload: expected JSON, got what is broken or cut off near byte 6"},
      {"{} {}", "payload: expected one object, got more behind it at byte 3"},
      {"['\\u0000',x]", "payload: expected JSON, got what is broken or cut off near byte 10"},
      {"'\\u0000' x", "payload: expected one object, got more behind it at byte 9"},
      {"'\xC0\x80'", "payload: expected UTF-8, broken at byte 1"},
      {"[01]", "payload: expected a JSON number at byte 1"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct error error = {""};
    assert_null(parse(rows[i].text, &error));
    assert_string_equal(error.text, rows[i].error);
  }
}

TEST(a_nul_is_marked) {
  struct error error;
  cJSON *tree = parse("['a\\u0000b','\\\\u0000']", &error);
  assert_non_null(tree);
  assert_string_equal(tree->child->valuestring, "a" JSON_GUARD_NUL "b");
  assert_string_equal(tree->child->next->valuestring, "\\u0000");
  cJSON_Delete(tree);
}
