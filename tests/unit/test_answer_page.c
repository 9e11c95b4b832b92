#include "agent/tools/answer.h"
#include "tests/test.h"

static void expect_bytes(const char *text, size_t length, uint64_t offset, uint64_t limit,
                         const char *expected) {
  struct buffer out = {0};
  struct error error = {.text = ""};
  if (answer_page(text, length, offset, limit, &out, &error) != 0) {
    assert_int_equal(out.length, 0);
    buffer_add_string(&out, "Error: ");
    buffer_add_string(&out, error.text);
  }
  buffer_add(&out, "", 1);
  assert_string_equal(out.bytes, expected);
  buffer_release(&out);
}

static void expect(const char *text, uint64_t offset, uint64_t limit, const char *expected) {
  expect_bytes(text, strlen(text), offset, limit, expected);
}

/* A text of so many of this byte, with a line after them. */
static char *long_text(size_t count, const char *tail) {
  char *text = malloc(count + strlen(tail) + 1);
  assert_non_null(text);
  memset(text, 'x', count);
  strcpy(text + count, tail);
  return text;
}

TEST(a_whole_text_stays_as_it_is) {
  expect("", 0, 0, "");
  expect("a", 0, 0, "a");
  expect("a\n", 0, 0, "a\n");
  expect("a\r\n\n\n", 1, 0, "a\r\n\n\n");
  expect_bytes(NULL, 0, 0, 0, "");
}

TEST(chosen_lines_lose_the_last_newline) {
  expect("a\nb\nc\n", 2, 0, "b\nc");
  expect("a\nb\nc\n", 1, 3, "a\nb\nc");
  expect("a\nb\nc", 1, 9, "a\nb\nc");
  expect("a\nb\nc\n", 3, 1, "c");
  expect("a\r\nb\r\n", 2, 0, "b\r");
  expect("", 1, 5, "");
}

TEST(a_hint_says_where_to_continue) {
  expect("a\nb\nc\n", 1, 2, "a\nb\n... (showing lines 1-2 of 3; continue with offset=3)");
  expect("a\nb\nc", 2, 1, "b\n... (showing lines 2-2 of 3; continue with offset=3)");
  expect("a\n\n\n", 1, 2, "a\n\n... (showing lines 1-2 of 3; continue with offset=3)");
}

TEST(an_offset_past_the_end_is_an_error) {
  expect("a\nb\nc\n", 99, 0, "Error: offset 99 is past the end of the file (3 lines)");
  expect("a\nb\nc\n", 4, 1, "Error: offset 4 is past the end of the file (3 lines)");
  expect("a", 2, 0, "Error: offset 2 is past the end of the file (1 line)");
  expect("", 2, 0, "Error: offset 2 is past the end of the file (0 lines)");
  expect("a", UINT64_MAX, UINT64_MAX,
         "Error: offset 18446744073709551615 is past the end of the file (1 line)");
}

TEST(the_largest_text_is_whole) {
  char *text = long_text(ANSWER_PAGE_MAX - 1, "\n");
  expect(text, 0, 0, text);
  free(text);
}

TEST(a_longer_one_is_cut_after_the_last_whole_line) {
  char *text = long_text(ANSWER_PAGE_MAX, "\nsecond\nthird\n");
  char *expected =
      long_text(ANSWER_PAGE_MAX, "\n... (truncated at line 1 of 3; continue with offset=2)");
  expect(text, 0, 0, expected);
  expect(text, 1, 2, expected);
  expect(text, 2, 0, "second\nthird");
  free(text);
  free(expected);
}

TEST(a_line_that_is_too_long_is_cut_between_characters) {
  char *text = long_text(ANSWER_PAGE_MAX - 1, "\xC3\xA9\nsecond\n");
  char *expected = long_text(ANSWER_PAGE_MAX - 1, "\n... (truncated mid-line 1 of 2)");
  expect(text, 0, 0, expected);
  free(text);
  free(expected);
}
