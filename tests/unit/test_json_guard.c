#include "tests/support/quoted.h"
#include "tests/test.h"
#include "wire/json_guard.h"

/* With quotes as in quoted.h; no text is longer than it takes. */
static int scan(struct json_guard *guard, const char *text, struct error *error) {
  const char *json = quoted(text);
  return json_guard_scan(guard, json, strlen(json), "id", error);
}

TEST(it_refuses_what_cjson_lets_through) {
  static const struct {
    const char *texts, *message;
  } rows[] = {
      {"['\x80']", "payload: expected UTF-8, broken at byte 2"},
      {"['ab\xC0\x80']", "payload: expected UTF-8, broken at byte 4"},
      {"['\xED\xA0\x80']", "payload: expected UTF-8, broken at byte 2"},
      {"['0123456789\xE2\x82", "payload: expected UTF-8, broken at byte 12"},
      {"\xFF", "payload: expected UTF-8, broken at byte 0"},
      {"['a\nb']", "payload: expected JSON, got a raw control character 0x0a at byte 3"},
      {"['\x1F']", "payload: expected JSON, got a raw control character 0x1f at byte 2"},
      {"[\x01]", "payload: expected JSON, got a raw control character 0x01 at byte 1"},
      {"['\\u12']", "payload: expected four hexadecimal digits after \\u at byte 2"},
      {"['\\uZZZZ']", "payload: expected four hexadecimal digits after \\u at byte 2"},
      {"['a\\u00e", "payload: expected four hexadecimal digits after \\u at byte 3"},
      {"01", "payload: expected a JSON number at byte 0"},
      {"[1,1.]", "payload: expected a JSON number at byte 3"},
      {"[-01] [-.5] [-] [1e] [1e+] [1-2] [1.2.3]", "payload: expected a JSON number at byte 1"},
      /* The first error is the one that is told. */
      {"[01,'\x80']", "payload: expected a JSON number at byte 1"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *text;
    for (size_t k = 0; (text = nth_word(rows[i].texts, k)) != NULL; k++) {
      struct json_guard guard;
      struct error error = {""};
      assert_int_equal(scan(&guard, text, &error), -1);
      assert_string_equal(error.text, rows[i].message);
    }
  }
}

TEST(it_lets_json_through) {
  static const char *const rows[] = {
      "",
      "{}",
      " \t\r\n[0,-0,10,-1.5,0.25,1e5,1E+5,1.0e-5,-0e0]",
      "\xEF\xBB\xBF{}",
      "['\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80','\\u00e9\\'\\\\\\/\\b']",
      "['0.12.3 -- \x7F']",
      "[true,false,null]",
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct json_guard guard;
    struct error error = {"untouched"};
    if (scan(&guard, rows[i], &error) != 0)
      fail_msg("%s: %s", rows[i], error.text);
    assert_string_equal(error.text, "untouched");
    assert_false(guard.has_nul);
  }
}

TEST(a_nul_byte_is_a_control_character) {
  struct json_guard guard;
  struct error error;
  assert_int_equal(json_guard_scan(&guard, "[\"a\0b\"]", 7, "id", &error), -1);
  assert_string_equal(error.text,
                      "payload: expected JSON, got a raw control character 0x00 at byte 3");
}

static char *repeat(const char *part, size_t count) {
  size_t length = strlen(part);
  char *text = malloc(length * count + 1);
  assert_non_null(text);
  for (size_t i = 0; i < count; i++)
    memcpy(text + i * length, part, length);
  text[length * count] = '\0';
  return text;
}

TEST(nesting_has_a_limit) {
  struct json_guard guard;
  struct error error;
  char *text = repeat("[", JSON_GUARD_DEPTH_MAX);
  assert_int_equal(scan(&guard, text, &error), 0);
  free(text);
  text = repeat("[", JSON_GUARD_DEPTH_MAX + 1);
  assert_int_equal(scan(&guard, text, &error), -1);
  assert_string_equal(error.text,
                      "payload: expected at most 64 levels of nesting, got more at byte 64");
  free(text);
  /* Beside each other they are not deep, and in a string they are no brackets. */
  text = repeat("[[]]", 1000);
  assert_int_equal(scan(&guard, text, &error), 0);
  free(text);
  text = repeat("'[[[[[[[[[['", 100);
  assert_int_equal(scan(&guard, text, &error), 0);
  free(text);
}

/* The container is one of the values, the first element needs no comma. */
TEST(the_number_of_values_has_a_limit) {
  struct json_guard guard;
  struct error error;
  char *text = repeat("1,", JSON_GUARD_VALUES_MAX);
  text[0] = '[';
  text[1] = '1';
  size_t most = 2 * ((size_t)JSON_GUARD_VALUES_MAX - 1);
  text[most] = ']';
  assert_int_equal(json_guard_scan(&guard, text, most + 1, "id", &error), 0);
  text[most] = ',';
  text[most + 1] = '1';
  assert_int_equal(json_guard_scan(&guard, text, most + 2, "id", &error), -1);
  assert_string_equal(error.text, "payload: expected at most 200000 values, got more");
  free(text);
}

TEST(it_finds_the_member) {
  static const struct {
    const char *text, *member;
  } rows[] = {
      {"{'id':'a'}", "'a'"},
      {" {'x':{'id':'inner'},'id' \n:\t'a'}", "'a'"},
      {"{'id':''}", "''"},
      {"{'id':'a\\'b'}", "'a\\'b'"},
      {"{'id':'first','id':'second'}", "'first'"},
      /* Broken text: before it, behind it, in it. */
      {"{'id':'a','command':'x", "'a'"},
      {"{'x':'\xFF','id':'a'}", "'a'"},
      {"{x:,,'id':'a'", "'a'"},
      {"{'id':'a", NULL},
      {"{'id':'a\\", NULL},
      {"{'id':'\xFF'}", NULL},
      {"{'id':'\\u12'}", NULL},
      {"{'id'", NULL},
      {"{'id':", NULL},
      /* Not the member, or not a string, or not of the outermost object. */
      {"{'id':1}", NULL},
      {"{'i':'id','idx':'a'}", NULL},
      {"{'x':'id','y':'a'}", NULL},
      {"[{'id':'a'}]", NULL},
      {"['id':'a']", NULL},
      {"'id':'a'", NULL},
      {"{} {'id':'a'}", NULL},
      {"{}}}}{'id':'a'}", NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct json_guard guard;
    struct error error;
    (void)scan(&guard, rows[i].text, &error);
    if (rows[i].member == NULL) {
      assert_null(guard.member);
      continue;
    }
    assert_non_null(guard.member);
    assert_int_equal(guard.member_length, strlen(rows[i].member));
    assert_memory_equal(guard.member, quoted(rows[i].member), guard.member_length);
  }
}

TEST(the_member_is_found_behind_every_limit) {
  static const char tail[] = ",\"id\":\"a\"}";
  char *opened = repeat("[", 10000);
  char *closed = repeat("]", 10000);
  char *values = repeat("1,", JSON_GUARD_VALUES_MAX);
  const struct {
    const char *parts[3];
  } rows[] = {{{"{\"x\":", opened, closed}}, {{"{\"x\":[", values, "1]"}}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    size_t size = sizeof tail;
    for (size_t p = 0; p < 3; p++)
      size += strlen(rows[i].parts[p]);
    char *text = malloc(size);
    assert_non_null(text);
    char *end = text;
    for (size_t p = 0; p < 3; p++)
      end = stpcpy(end, rows[i].parts[p]);
    memcpy(end, tail, sizeof tail);
    struct json_guard guard;
    struct error error;
    assert_int_equal(json_guard_scan(&guard, text, size - 1, "id", &error), -1);
    assert_int_equal(guard.member_length, 3);
    assert_memory_equal(guard.member, "\"a\"", 3);
    free(text);
  }
  free(opened);
  free(closed);
  free(values);
}

TEST(escaped_nuls_are_marked) {
  static const struct {
    const char *text, *copy;
    bool has_nul;
  } rows[] = {
      {"['abc']", "['abc']", false},
      {"['\\u0000']", "['\xC0\x80']", true},
      {"['a\\u0000\\u0000b']", "['a\xC0\x80\xC0\200b']", true},
      {"['\\\\\\u0000']", "['\\\\\xC0\x80']", true},
      /* A backslash, and then the text u0000. */
      {"['\\\\u0000']", "['\\\\u0000']", false},
      {"['\\u00001']", "['\xC0\2001']", true},
      {"['\\u0001\\u000']", "['\\u0001\\u000']", false},
      {"['\\", "['\\", false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct json_guard guard;
    struct error error;
    (void)scan(&guard, rows[i].text, &error);
    assert_int_equal(guard.has_nul, rows[i].has_nul);
    size_t length;
    char *copy = json_guard_mark_nul(quoted(rows[i].text), strlen(rows[i].text), &length);
    assert_int_equal(length, strlen(rows[i].copy));
    assert_memory_equal(copy, quoted(rows[i].copy), length);
    /* Offsets lead back: the end of the copy is the end of the text. */
    assert_int_equal(json_guard_text_offset(copy, length), strlen(rows[i].text));
    assert_int_equal(json_guard_text_offset(copy, 2), 2);
    free(copy);
  }
}
