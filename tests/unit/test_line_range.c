#include <limits.h>

#include "agent/files/access/line_range.h"
#include "tests/test.h"

static const char no_text[] = "binary or non-UTF-8 content not supported";

static struct buffer cut(const struct line_range *slice, const char *content, size_t length) {
  struct buffer text = {0};
  struct error error = {.text = ""};
  assert_int_equal(line_range_cut(slice, content, length, &text, &error), 0);
  assert_string_equal(error.text, "");
  return text;
}

static void expect_bytes(const struct line_range *slice, const char *content, size_t length,
                         const char *expected, size_t expected_length) {
  struct buffer text = cut(slice, content, length);
  assert_int_equal(text.length, expected_length);
  if (expected_length > 0)
    assert_memory_equal(text.bytes, expected, expected_length);
  buffer_release(&text);
}

static void expect(const char *content, unsigned start, unsigned count, const char *text) {
  expect_bytes(&(struct line_range){start, count, false}, content, strlen(content), text,
               strlen(text));
}

static void expect_numbered(const char *content, unsigned start, unsigned count, const char *text) {
  expect_bytes(&(struct line_range){start, count, true}, content, strlen(content), text,
               strlen(text));
}

static void expect_refused(const char *content, size_t length) {
  struct buffer text = {0};
  struct error error = {.text = ""};
  buffer_add(&text, "before", 6);
  assert_int_equal(line_range_cut(&(struct line_range){1, 1, true}, content, length, &text, &error),
                   -1);
  assert_string_equal(error.text, no_text);
  assert_int_equal(text.length, 6);
  buffer_release(&text);
}

TEST(without_a_range_all_lines_are_cut) {
  expect("one\ntwo\n", 0, 0, "one\ntwo\n");
  expect("one\ntwo", 0, 0, "one\ntwo");
  expect("one\r\ntwo\r\n", 0, 0, "one\r\ntwo\r\n");
  expect("", 0, 0, "");
  expect("\n", 0, 0, "\n");
  expect("\n\n", 0, 0, "\n\n");
}

TEST(chosen_lines_are_joined) {
  expect("line 4\nline 5\nline 6\nline 7\nline 8\n", 2, 3, "line 5\nline 6\nline 7");
  expect("one\ntwo\nthree\n", 1, 1, "one");
  expect("one\ntwo\nthree\n", 2, 0, "two\nthree\n");
  expect("one\ntwo\nthree\n", 2, 2, "two\nthree");
  expect("one\ntwo\nthree\n", 2, 3, "two\nthree\n"); /* and an empty one */
  expect("one\ntwo\nthree", 3, 1, "three");
  expect("one\ntwo\nthree", 2, 9, "two\nthree");
  expect("\n\nthree", 2, 1, "");
  expect("\n\nthree", 1, 2, "\n");
  expect("one\r\ntwo\r\n", 1, 1, "one\r");
  expect("one\rstill one\ntwo", 1, 1, "one\rstill one");
  expect("one\n", 1, 0, "one\n");
}

/* What follows the last line end is a line, empty or not. */
TEST(after_the_last_line_there_is_nothing) {
  expect("foo\n", 2, 0, "");
  expect_numbered("foo\n", 2, 0, "2\t");
  expect_numbered("foo\n", 3, 0, "");
  expect("one\ntwo", 3, 1, "");
  expect("one\ntwo", UINT_MAX, UINT_MAX, "");
  expect("", 1, 1, "");
  expect("", 2, 0, "");
  expect("one\ntwo", 2, UINT_MAX, "two");
}

/* What was there before stays in front. */
TEST(lines_are_added) {
  struct buffer text = cut(&(struct line_range){1, 1, true}, "one\ntwo\n", 8);
  struct error error;
  assert_int_equal(line_range_cut(&(struct line_range){2, 1, true}, "one\ntwo\n", 8, &text, &error),
                   0);
  assert_int_equal(line_range_cut(&(struct line_range){2, 0, false}, "one\ntwo", 7, &text, &error),
                   0);
  assert_int_equal(text.length, 13);
  assert_memory_equal(text.bytes, "1\tone2\ttwotwo", 13);
  buffer_release(&text);
}

TEST(numbers_are_aligned) {
  static const char ten[] = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj";
  expect_numbered("foo\n", 0, 0, "1\tfoo\n2\t");
  expect_numbered("a\nb", 0, 0, "1\ta\n2\tb");
  expect_numbered("a\n\nb\r\n", 0, 0, "1\ta\n2\t\n3\tb\r\n4\t");
  expect_numbered(ten, 1, 1, " 1\ta");
  expect_numbered(ten, 9, 2, " 9\ti\n10\tj");
  expect_numbered(ten, 11, 0, "");
  expect_numbered("", 0, 0, "1\t");
  /* The width is that of all lines, and the empty one after the last line end is one of them. */
  expect_numbered("a\nb\nc\nd\ne\nf\ng\nh\ni\n", 9, 1, " 9\ti");
  expect_numbered("a\nb\nc\nd\ne\nf\ng\nh\n", 8, 0, "8\th\n9\t");
}

TEST(a_byte_order_mark_is_omitted) {
  expect("\xEF\xBB\xBFone\ntwo", 0, 0, "one\ntwo");
  expect("\xEF\xBB\xBFone\ntwo", 2, 0, "two");
  expect_numbered("\xEF\xBB\xBFone", 0, 0, "1\tone");
  expect("\xEF\xBB\xBF", 0, 0, "");
  expect_numbered("\xEF\xBB\xBF", 0, 0, "1\t");
  expect("\xEF\xBB\xBF\xEF\xBB\xBF", 0, 0, "\xEF\xBB\xBF");
  expect("one\xEF\xBB\xBF", 0, 0, "one\xEF\xBB\xBF");
}

TEST(only_utf8_is_text) {
  expect("K\xC3\xB6ln\n\xF0\x9F\x8D\xBA", 1, 1, "K\xC3\xB6ln");
  expect_refused("one\n\xFF", 5);    /* behind what was asked for, too */
  expect_refused("\xEF\xBB", 2);     /* half a mark */
  expect_refused("\xFF\xFEo\0", 4);  /* UTF-16 */
  expect_refused("\xC0\x80", 2);     /* overlong */
  expect_refused("\xED\xA0\x80", 3); /* a surrogate */
  expect_refused("caf\xE9", 4);      /* Latin-1 */
  expect_refused("\xEF\xBB\xBF\xFF", 4);
}

TEST(nul_is_text) {
  expect_bytes(&(struct line_range){1, 1, false}, "a\0b\nc", 5, "a\0b", 3);
}

/* The worst: a million lines of nothing. */
TEST(a_whole_file_is_numbered) {
  enum { LINES = 1048576, WIDTH = 7 };
  char *content = malloc(LINES);
  assert_non_null(content);
  memset(content, '\n', LINES);
  struct buffer numbered = cut(&(struct line_range){0, 0, true}, content, LINES);
  assert_int_equal(numbered.length, (size_t)LINES * (WIDTH + 2) + WIDTH + 1);
  assert_memory_equal(numbered.bytes, "      1\t\n      2\t\n", 18);
  assert_memory_equal(numbered.bytes + numbered.length - 17, "1048576\t\n1048577\t", 17);
  buffer_release(&numbered);
  free(content);
}
