#include "agent/files/grep/match_json.h"
#include "tests/test.h"

#define ELLIPSIS "\xE2\x80\xA6"

static void expect(struct buffer *text, const char *json) {
  buffer_add(text, "", 1);
  assert_string_equal(text->bytes, json);
  buffer_release(text);
}

TEST(an_empty_result_is_an_array) {
  struct buffer text = {0};
  struct match_json list;
  match_json_begin(&list, &text);
  match_json_file(&list, "a", 1);
  match_json_end(&list);
  expect(&text, "[]");
}

TEST(entries_have_their_fields) {
  struct buffer text = {0};
  struct match_json list;
  match_json_begin(&list, &text);
  match_json_file(&list, "a/b.c", 5);
  assert_true(match_json_line(&list, 9, "x", 1, false));
  assert_true(match_json_line(&list, 10, "say \"\t\"", 7, true));
  match_json_file(&list, "c\xFF\"", 3);
  assert_true(match_json_path(&list));
  assert_true(match_json_count(&list, 1234567));
  match_json_end(&list);
  expect(&text, "[{\"path\":\"a/b.c\",\"line\":9,\"text\":\"x\",\"kind\":\"context\"},"
                "{\"path\":\"a/b.c\",\"line\":10,\"text\":\"say \\\"\\t\\\"\",\"kind\":\"match\"},"
                "{\"path\":\"c\xEF\xBF\xBD\\\"\"},"
                "{\"path\":\"c\xEF\xBF\xBD\\\"\",\"count\":1234567}]");
}

/* A line of so many of these characters, shown. */
static void show(struct buffer *text, const char *character, size_t count, const char *end) {
  struct buffer line = {0};
  for (size_t i = 0; i < count; i++)
    buffer_add_string(&line, character);
  buffer_add_string(&line, end);
  struct match_json list;
  match_json_begin(&list, text);
  match_json_file(&list, "a", 1);
  assert_true(match_json_line(&list, 1, line.bytes, line.length, true));
  match_json_end(&list);
  buffer_release(&line);
}

TEST(long_lines_are_cut_by_characters) {
  static const struct {
    const char *character, *shown;
  } rows[] = {{"x", "x"},
              {"\xC3\xA9", "\xC3\xA9"},
              {"\xE6\xA4\x9C", "\xE6\xA4\x9C"},
              {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
              {"\xFF", "\xEF\xBF\xBD"},
              {"\xE2\x80", "\xEF\xBF\xBD"},
              {"\"", "\\\""}};
  static const char head[] = "[{\"path\":\"a\",\"line\":1,\"text\":\"";
  static const char tail[] = "\",\"kind\":\"match\"}]";
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t shown = strlen(rows[i].shown);
    struct buffer whole = {0};
    struct buffer cut = {0};
    struct buffer expected = {0};
    show(&whole, rows[i].character, MATCH_JSON_CHARACTERS, "");
    show(&cut, rows[i].character, MATCH_JSON_CHARACTERS, "y");
    assert_int_equal(whole.length, strlen(head) + MATCH_JSON_CHARACTERS * shown + strlen(tail));
    buffer_add_string(&expected, head);
    for (int k = 0; k < MATCH_JSON_CHARACTERS; k++)
      buffer_add_string(&expected, rows[i].shown);
    buffer_add_string(&expected, ELLIPSIS);
    buffer_add_string(&expected, tail);
    assert_int_equal(cut.length, expected.length);
    assert_memory_equal(cut.bytes, expected.bytes, expected.length);
    buffer_release(&whole);
    buffer_release(&cut);
    buffer_release(&expected);
  }
}

TEST(the_array_has_a_size_limit) {
  struct buffer text = {0};
  struct match_json list;
  match_json_begin(&list, &text);
  match_json_file(&list, "a", 1);
  char line[MATCH_JSON_CHARACTERS];
  memset(line, 1, sizeof line); /* six bytes each */
  while (match_json_line(&list, 1, line, sizeof line, true)) {
  }
  assert_false(match_json_path(&list));
  assert_false(match_json_count(&list, 1));
  match_json_end(&list);
  assert_in_range(text.length, MATCH_JSON_BYTES_MAX, MATCH_JSON_BYTES_MAX + 2000);
  assert_memory_equal(text.bytes + text.length - 2, "}]", 2);
  buffer_release(&text);
}
