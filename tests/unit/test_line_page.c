#include <limits.h>

#include "agent/files/access/line_range.h"
#include "tests/test.h"

/* Adds the text in pieces of `piece` bytes. */
static void expect_pieces(const char *text, size_t length, size_t piece, unsigned offset,
                          unsigned limit, const char *expected) {
  struct buffer out = {0};
  struct error error = {.text = ""};
  struct line_choice choice;
  line_choice_init(&choice, &(struct line_range){offset, limit, false}, LINE_PAGE_KEPT);
  for (size_t at = 0; at < length && line_choice_goes_on(&choice); at += piece)
    line_choice_add(&choice, text + at, piece < length - at ? piece : length - at);
  if (line_page_add(&choice, &out, &error) != 0) {
    assert_int_equal(out.length, 0);
    buffer_add_string(&out, "Error: ");
    buffer_add_string(&out, error.text);
  }
  buffer_add(&out, "", 1);
  assert_string_equal(out.bytes, expected);
  assert_true(choice.text.length <= LINE_PAGE_KEPT);
  line_choice_release(&choice);
  buffer_release(&out);
}

static void expect_bytes(const char *text, size_t length, unsigned offset, unsigned limit,
                         const char *expected) {
  expect_pieces(text, length, length < 100 ? 1 : 1000, offset, limit, expected);
  expect_pieces(text, length, 65536, offset, limit, expected);
}

static void expect(const char *text, unsigned offset, unsigned limit, const char *expected) {
  expect_bytes(text, strlen(text), offset, limit, expected);
}

/* Returns `count` times "x", followed by `tail`. */
static char *long_text(size_t count, const char *tail) {
  char *text = malloc(count + strlen(tail) + 1);
  assert_non_null(text);
  memset(text, 'x', count);
  strcpy(text + count, tail);
  return text;
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
  expect("a", UINT_MAX, UINT_MAX, "Error: offset 4294967295 is past the end of the file (1 line)");
}

TEST(a_longer_text_is_cut_after_the_last_whole_line) {
  char *text = long_text(LINE_PAGE_MAX, "\nsecond\nthird\n");
  char *expected =
      long_text(LINE_PAGE_MAX, "\n... (truncated at line 1 of 3; continue with offset=2)");
  expect(text, 0, 0, expected);
  expect(text, 1, 2, expected);
  expect(text, 2, 0, "second\nthird");
  free(text);
  free(expected);
}

TEST(a_line_that_is_too_long_is_cut_between_characters) {
  char *text = long_text(LINE_PAGE_MAX - 1, "\xC3\xA9\nsecond\n");
  char *expected = long_text(LINE_PAGE_MAX - 1,
                             "\n... (truncated mid-line 1 of 2; execute for the rest of it: sed -n "
                             "1p FILE | tail -c +102400 | head -c 50000; continue with offset=2)");
  expect(text, 0, 0, expected);
  free(text);
  free(expected);
  text = long_text(LINE_PAGE_MAX + 4, "");
  expected =
      long_text(LINE_PAGE_MAX, "\n... (truncated mid-line 1 of 1; execute for the rest of it: "
                               "sed -n 1p FILE | tail -c +102404 | head -c 50000)");
  memcpy(text, "\xEF\xBB\xBF", 3);
  expect(text, 0, 0, expected);
  free(text);
  free(expected);
}

TEST(shown_lines_must_be_text) {
  expect("\xFF\nb\nc\n", 2, 1, "b\n... (showing lines 2-2 of 3; continue with offset=3)");
  expect("\xFF\nb", 1, 1, "Error: binary or non-UTF-8 content not supported");
  char *text = long_text(LINE_PAGE_MAX, "\n\xFF\n");
  char *expected =
      long_text(LINE_PAGE_MAX, "\n... (truncated at line 1 of 2; continue with offset=2)");
  expect(text, 1, 0, expected);
  free(text);
  free(expected);
}

TEST(a_byte_order_mark_is_omitted) {
  expect("\xEF\xBB\xBF"
         "a\nb\n",
         1, 0, "a\nb\n");
  expect("\xEF\xBB\xBF"
         "a\nb\n",
         1, 1, "a\n... (showing lines 1-1 of 2; continue with offset=2)");
  char *text = long_text(LINE_PAGE_MAX + 3, "\nsecond\n");
  char *expected =
      long_text(LINE_PAGE_MAX, "\n... (truncated at line 1 of 2; continue with offset=2)");
  memcpy(text, "\xEF\xBB\xBF", 3);
  expect(text, 1, 0, expected);
  free(text);
  free(expected);
}

/* More than 1 MiB, where counting would mean reading everything. */
TEST(the_lines_of_a_large_file_are_not_counted) {
  enum { LINES = LINE_CHOICE_COUNTED / 8 + 100, LAST = LINES + 1 };
  char *text = malloc(LINES * 8 + 10), *expected = malloc(LINE_PAGE_MAX + 200);
  assert_non_null(text);
  assert_non_null(expected);
  for (size_t i = 1; i <= LINES; i++)
    assert_int_equal(snprintf(text + (i - 1) * 8, 9, "%07zu\n", i), 8);
  strcpy(text + LINES * 8, "last\n");
  expect(text, 2, 2, "0000002\n0000003\n... (showing lines 2-3 of more; continue with offset=4)");
  (void)snprintf(expected, LINE_PAGE_MAX + 200,
                 "%.*s... (truncated at line 12800 of more; continue with offset=12801)",
                 (int)LINE_PAGE_MAX, text);
  expect(text, 1, 0, expected);
  /* The chosen line ends with a piece. */
  expect(text, 131125, 1,
         "0131125\n... (showing lines 131125-131125 of more; continue with offset=131126)");
  expect(text, LINES, 0, formatted("%07d\nlast", LINES));
  expect(text, LAST, 5, "last");
  expect(text, LAST + 1, 5,
         formatted("Error: offset %d is past the end of the file (%d lines)", LAST + 1, LAST));
  free(text);
  text = long_text(LINE_CHOICE_COUNTED, "\n");
  (void)snprintf(
      expected, LINE_PAGE_MAX + 200,
      "%.*s\n... (truncated mid-line 1 of more; execute for the rest of it: sed -n 1p FILE | "
      "tail -c +102401 | head -c 50000; continue with offset=2)",
      (int)LINE_PAGE_MAX, text);
  expect(text, 1, 1, expected);
  free(text);
  free(expected);
}
