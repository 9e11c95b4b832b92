#include "wire/json_names.h"
#include "tests/test.h"

TEST(what_is_long_or_strange_is_shown_on_one_short_line) {
  static const struct {
    const char *text;
    const char *shown;
  } rows[] = {
      {"", ""},
      {"compile", "compile"},
      {"a\nb\x1B[31m\x7F", "a?b?[31m?"},
      {"caf\xC3\xA9 \xF0\x9F\x98\x80!", "caf? ?!"},
      {"1234567890123456789012345678901234567890", "1234567890123456789012345678901234567890"},
      {"12345678901234567890123456789012345678901", "1234567890123456789012345678901234567..."},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char shown[JSON_NAMES_SHOWN_SIZE];
    json_names_show(shown, rows[i].text, strlen(rows[i].text));
    assert_string_equal(shown, rows[i].shown);
  }
}

TEST(a_name_that_is_there_twice_is_refused) {
  static const struct {
    const char *json;
    const char *message; /* NULL: unique */
  } rows[] = {
      {"{}", NULL},
      {"{\"a\":1}", NULL},
      {"{\"a\":1,\"A\":1,\"ab\":1,\"\":1}", NULL},
      {"{\"a\":1,\"b\":1,\"a\":1}", "env.a: expected once, got it twice"},
      {"{\"a\":1,\"\\u0061\":1}", "env.a: expected once, got it twice"},
      {"{\"TOKEN=secret\":1,\"TOKEN=secret\":1}", "env.TOKEN: expected once, got it twice"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    cJSON *object = cJSON_Parse(rows[i].json);
    assert_non_null(object);
    struct error error;
    int expected = rows[i].message == NULL ? 0 : -1;
    assert_int_equal(json_names_unique(object, "env", &error), expected);
    if (rows[i].message != NULL)
      assert_string_equal(error.text, rows[i].message);
    cJSON_Delete(object);
  }
}

/* Pairwise, this would be 20,000,000,000 comparisons. */
TEST(many_names_are_no_trouble) {
  enum { COUNT = 200000, SIZE = 16 };
  char *json = malloc((size_t)COUNT * SIZE + 2);
  assert_non_null(json);
  char *end = json;
  for (unsigned i = 0; i < COUNT; i++)
    end += snprintf(end, SIZE, "%c\"%06u\":1", i == 0 ? '{' : ',', i);
  strcpy(end, "}");
  cJSON *object = cJSON_Parse(json);
  assert_non_null(object);
  struct error error;
  assert_int_equal(json_names_unique(object, "", &error), 0);
  /* The last becomes the first. */
  memset(end - 9, '0', 6);
  cJSON_Delete(object);
  object = cJSON_Parse(json);
  assert_int_equal(json_names_unique(object, "", &error), -1);
  assert_string_equal(error.text, "000000: expected once, got it twice");
  cJSON_Delete(object);
  free(json);
}

TEST(a_path_ends_where_a_value_may_begin) {
  static const struct {
    const char *path;
    const char *name;
    const char *expected;
  } rows[] = {
      {"", "stepId", "stepId"},   {"env", "PATH", "env.PATH"}, {"env", "TOKEN=secret", "env.TOKEN"},
      {"env", "=secret", "env."}, {"env", "a\nb", "env.a?b"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char path[JSON_NAMES_PATH_SIZE];
    json_names_path(path, rows[i].path, rows[i].name);
    assert_string_equal(path, rows[i].expected);
  }
}
