#include "agent/files/grep/match_list.h"
#include "tests/test.h"

#define ELLIPSIS "\xE2\x80\xA6"

/* A line of so many of these characters, shown. */
static void show(struct buffer *text, const char *character, size_t count, const char *end) {
  struct buffer line = {0};
  for (size_t i = 0; i < count; i++)
    buffer_add_string(&line, character);
  buffer_add_string(&line, end);
  struct match_list list;
  match_list_begin(&list, text, false);
  match_list_file(&list, "a", 1);
  assert_true(match_list_line(&list, 1, line.bytes, line.length, true));
  match_list_end(&list);
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
    show(&whole, rows[i].character, MATCH_LIST_CHARACTERS, "");
    show(&cut, rows[i].character, MATCH_LIST_CHARACTERS, "y");
    assert_int_equal(whole.length, strlen(head) + MATCH_LIST_CHARACTERS * shown + strlen(tail));
    buffer_add_string(&expected, head);
    for (int k = 0; k < MATCH_LIST_CHARACTERS; k++)
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
