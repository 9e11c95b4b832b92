#include "tests/test.h"
#include "wire/step_field.h"

/* As a double, 2^53 + 1 is 2^53. */
TEST(an_offset_is_a_whole_number_below_2_to_the_53) {
  static const struct {
    const char *json;
    uint64_t number;
  } good[] = {{"0", 0},
              {"-1", 0},
              {"-9007199254740991", 0},
              {"1", 1},
              {"2147483648", UINT64_C(2147483648)},
              {"2e10", UINT64_C(20000000000)},
              {"9007199254740991", UINT64_C(9007199254740991)}};
  static const char *const bad[][2] = {{"9007199254740992", "9007199254740992"},
                                       {"9007199254740993", "9007199254740992"},
                                       {"-9007199254740993", "-9007199254740992"},
                                       {"1e300", "1e+300"},
                                       {"-1e300", "-1e+300"},
                                       {"1e999", "inf"},
                                       {"0.5", "0.5"},
                                       {"-0.5", "-0.5"},
                                       {"\"1\"", "a string"},
                                       {"true", "a boolean"}};
  const struct step_field field = {.name = "n", .type = &step_field_offset};
  struct error error;
  uint64_t number = 0;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    cJSON *value = cJSON_Parse(good[i].json);
    assert_int_equal(step_field_offset.read(&field, value, &number, &error), 0);
    assert_true(number == good[i].number);
    cJSON_Delete(value);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cJSON *value = cJSON_Parse(bad[i][0]);
    assert_int_equal(step_field_offset.read(&field, value, &number, &error), -1);
    assert_string_equal(
        error.text,
        formatted("n: expected a whole number up to 9007199254740991, got %s", bad[i][1]));
    cJSON_Delete(value);
  }
}

/* Like `kind`, `outputMode` and `sortBy`. */
TEST(a_choice_is_a_name_or_a_number) {
  static const struct step_choice choices[] = {
      {"name", 0}, {"size", 1}, {"own", STEP_CHOICE_NO_NUMBER}, {"mtime", 2}, {0}};
  enum { UNKNOWN = 9 };
  static const struct {
    const char *member;
    unsigned chosen;
  } good[] = {
      {"", 0},
      {"'n':'name'", 0},
      {"'n':'SIZE'", 1},
      {"'n':' \\t\\r\\n\\u000bown\\f'", 2},
      {"'n':0", 0},
      {"'n':1", 1},
      {"'n':2", 3},
      {"'n':'2'", 3},
      {"'n':' 2 '", 3},
      {"'n':3", UNKNOWN},
      {"'n':-1", UNKNOWN},
      {"'n':'-1'", UNKNOWN},
      {"'n':1.5", UNKNOWN},
      {"'n':1e300", UNKNOWN},
      {"'n':4294967297", UNKNOWN},
      {"'n':'4294967297'", UNKNOWN},
      {"'n':'99999999999999999999'", UNKNOWN},
      {"'n':null", UNKNOWN},
      {"'n':true", UNKNOWN},
      {"'n':false", UNKNOWN},
      {"'n':''", UNKNOWN},
      {"'n':' '", UNKNOWN},
      {"'n':'siz'", UNKNOWN},
      {"'n':'sizes'", UNKNOWN},
      {"'n':'na me'", UNKNOWN},
      {"'n':'1x'", UNKNOWN},
      {"'n':'1 1'", UNKNOWN},
      {"'n':'0x1'", UNKNOWN},
      {"'n':'1.0'", UNKNOWN},
  };
  static const struct {
    const char *member, *got;
  } bad[] = {{"'n':[]", "an array"}, {"'n':['size']", "an array"}, {"'n':{}", "an object"}};
  const struct step_field field = {
      .name = "n", .type = &step_field_choice, .choices = choices, .fallback = UNKNOWN};
  struct error error;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    cJSON *object = cJSON_Parse(quoted(formatted("{%s}", good[i].member)));
    unsigned chosen = 0;
    if (object == NULL || step_field_read(&field, object, "", &chosen, &error) != 0 ||
        chosen != good[i].chosen)
      fail_msg("%s: %u", good[i].member, chosen);
    cJSON_Delete(object);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cJSON *object = cJSON_Parse(quoted(formatted("{%s}", bad[i].member)));
    unsigned chosen = 0;
    assert_int_equal(step_field_read(&field, object, "", &chosen, &error), -1);
    assert_string_equal(error.text,
                        formatted("n: expected one of name, size, own, mtime, got %s", bad[i].got));
    cJSON_Delete(object);
  }
}

/* Expects the beginning of an error about two members of this name. */
static void expect_path(const char *path, const char *name, const char *expected) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddNullToObject(object, name);
  cJSON_AddNullToObject(object, name);
  struct error error;
  assert_int_equal(step_field_names_unique(object, path, &error), -1);
  assert_string_equal(error.text, formatted("%s: expected once, got it twice", expected));
  cJSON_Delete(object);
}

TEST(long_or_strange_names_are_shown_on_one_short_line) {
  static const struct {
    const char *text, *shown;
  } rows[] = {
      {"", ""},
      {"compile", "compile"},
      {"a\nb\x1B[31m\x7F", "a?b?[31m?"},
      {"caf\xC3\xA9 \xF0\x9F\x98\x80!", "caf? ?!"},
      {"1234567890123456789012345678901234567890", "1234567890123456789012345678901234567890"},
      {"12345678901234567890123456789012345678901", "1234567890123456789012345678901234567..."},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    expect_path("", rows[i].text, rows[i].shown);
}

/* Pairwise, this would be 20,000,000,000 comparisons. */
TEST(many_names_are_checked_quickly) {
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
  assert_int_equal(step_field_names_unique(object, "", &error), 0);
  /* The last name becomes the first one. */
  memset(end - 9, '0', 6);
  cJSON_Delete(object);
  object = cJSON_Parse(json);
  assert_int_equal(step_field_names_unique(object, "", &error), -1);
  assert_string_equal(error.text, "000000: expected once, got it twice");
  cJSON_Delete(object);
  free(json);
}

TEST(the_path_of_a_field_does_not_show_its_value) {
  static const struct {
    const char *path, *name, *expected;
  } rows[] = {
      {"", "stepId", "stepId"},   {"env", "PATH", "env.PATH"}, {"env", "TOKEN=secret", "env.TOKEN"},
      {"env", "=secret", "env."}, {"env", "a\nb", "env.a?b"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    expect_path(rows[i].path, rows[i].name, rows[i].expected);
}

/* --- lists --- */

struct pair {
  char *name;
  unsigned number;
};

static const struct step_field pair_fields[] = {
    {.name = "name",
     .type = &step_field_text,
     .offset = offsetof(struct pair, name),
     .required = true,
     .minimum = 1},
    {.name = "number",
     .type = &step_field_integer,
     .offset = offsetof(struct pair, number),
     .maximum = 9,
     .fallback = 7},
};
static const struct step_table pair_table = STEP_TABLE(pair_fields, struct pair);
static const struct step_field pairs_field = {
    .name = "pairs", .type = &step_field_list, .required = true, .element = &pair_table};

static const struct step_table of_pairs = {&pairs_field, 1, sizeof(struct step_list), NULL};

static int read_pairs(const char *json, struct step_list *list, struct error *error) {
  cJSON *object = cJSON_Parse(json);
  assert_non_null(object);
  *list = (struct step_list){0};
  int result = step_field_read(&pairs_field, object, "", list, error);
  cJSON_Delete(object);
  return result;
}

TEST(a_list_is_read_from_an_array_of_objects) {
  struct step_list list;
  struct error error;
  assert_int_equal(
      read_pairs("{\"pairs\":[{\"name\":\"a\",\"number\":1,\"other\":[]},{\"name\":\"b\"}]}", &list,
                 &error),
      0);
  assert_int_equal(list.count, 2);
  const struct pair *pairs = list.items;
  assert_string_equal(pairs[0].name, "a");
  assert_int_equal(pairs[0].number, 1);
  assert_string_equal(pairs[1].name, "b");
  assert_int_equal(pairs[1].number, 7);
  step_table_release(&of_pairs, &list, true);

  static const struct {
    const char *json, *error;
  } bad[] = {
      {"{}", "pairs: expected an array of objects, got nothing"},
      {"{\"pairs\":null}", "pairs: expected an array of objects, got nothing"},
      {"{\"pairs\":{}}", "pairs: expected an array of objects, got an object"},
      {"{\"pairs\":[]}", "pairs: expected an array of objects, got an empty one"},
      {"{\"pairs\":[{\"name\":\"a\"},[]]}", "pairs[1]: expected an object, got an array"},
      {"{\"pairs\":[null]}", "pairs[0]: expected an object, got null"},
      {"{\"pairs\":[{\"name\":\"a\"},{\"number\":1}]}",
       "pairs[1].name: expected a non-empty string, got nothing"},
      {"{\"pairs\":[{\"name\":\"a\",\"number\":\"1\"}]}",
       "pairs[0].number: expected a whole number from 0 to 9, got a string"},
      {"{\"pairs\":[{\"name\":\"a\",\"name\":\"a\"}]}",
       "pairs[0].name: expected once, got it twice"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(read_pairs(bad[i].json, &list, &error), -1);
    assert_string_equal(error.text, bad[i].error);
    step_table_release(&of_pairs, &list, true);
  }
}
