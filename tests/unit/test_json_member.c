#include "wire/json.h"

#include "tests/support/quoted.h"
#include "tests/test.h"

/* Searches an exact copy, for the sanitizer. */
static void expect_bytes(const char *json, size_t length, const char *name, const char *expected) {
  char *copy = malloc(length > 0 ? length : 1);
  assert_non_null(copy);
  memcpy(copy, json, length);
  struct json_member member;
  bool found = json_member_find(copy, length, name, &member);
  if (found != (expected != NULL))
    fail_msg("%s: %s", json, found ? "found" : "not found");
  if (expected != NULL) {
    assert_int_equal(member.length, strlen(expected));
    assert_memory_equal(member.text, expected, member.length);
  }
  free(copy);
}

static void expect(const char *json, const char *name, const char *expected) {
  json = quoted(json);
  expect_bytes(json, strlen(json), name, expected == NULL ? NULL : quoted(expected));
}

TEST(a_name_may_be_written_with_escapes) {
  expect("{'\\u0069d':1}", "id", "1");
  expect("{'\\u0069\\u0064':1}", "id", "1");
  expect("{'a\\/b':1}", "a/b", "1");
  expect("{'id\\u0000':1}", "id", NULL);
  expect("{'\\u0069d\\u0000':1}", "id", NULL);
  expect("{'\\u0069e':1,'id':2,'id':3}", "id", "2");
}

TEST(elements_are_returned_one_by_one) {
  static const char json[] = " [ [1,[2]] , {\"a\":[3]},4 ,\"],\",[],null ] ";
  static const char *const elements[] = {"[1,[2]]", "{\"a\":[3]}", "4", "\"],\"", "[]", "null"};
  struct json_text array = {.bytes = json, .length = strlen(json)};
  struct json_member element;
  for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
    assert_true(json_element_next(&array, &element));
    assert_int_equal(element.length, strlen(elements[i]));
    assert_memory_equal(element.text, elements[i], element.length);
  }
  assert_false(json_element_next(&array, &element));
  array = (struct json_text){.bytes = "[ ]", .length = 3};
  assert_false(json_element_next(&array, &element));
}
