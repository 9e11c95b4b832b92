#include <limits.h>

#include "agent/files/access/line_range.h"
#include "tests/test.h"

static const char no_text[] = "binary or non-UTF-8 content not supported";

/* Adds the content in pieces of `piece` bytes. */
static int cut(const struct line_range *range, const char *content, size_t length, size_t piece,
               struct buffer *to, struct error *error) {
  struct line_choice choice;
  line_choice_init(&choice, range, 1 << 20);
  for (size_t at = 0; at < length && line_choice_goes_on(&choice); at += piece)
    line_choice_add(&choice, content + at, piece < length - at ? piece : length - at);
  int result = line_range_add(&choice, range->numbered, to, error);
  line_choice_release(&choice);
  return result;
}

static void expect_bytes(const struct line_range *range, const char *content, size_t length,
                         const char *expected, size_t expected_length) {
  for (size_t piece = 1; piece < 20; piece += 6) {
    struct buffer text = {0};
    struct error error = {.text = ""};
    assert_int_equal(cut(range, content, length, piece, &text, &error), 0);
    assert_string_equal(error.text, "");
    assert_int_equal(text.length, expected_length);
    if (expected_length > 0)
      assert_memory_equal(text.bytes, expected, expected_length);
    buffer_release(&text);
  }
}

/* The text, with the numbers of lines where it is to have them. */
static void expect_all(const struct line_range *range, const char *content, const char *text) {
  expect_bytes(range, content, strlen(content), text, strlen(text));
}

static void expect_all_of(const char *content, size_t length, const struct line_range *range,
                          const char *text) {
  struct buffer to = {0};
  struct error error = {.text = ""};
  assert_int_equal(cut(range, content, length, 4096, &to, &error), 0);
  buffer_add(&to, "", 1);
  assert_string_equal(to.bytes, text);
  buffer_release(&to);
}

static void expect_refused(const char *content, size_t length) {
  struct buffer text = {0};
  struct error error = {.text = ""};
  buffer_add(&text, "before", 6);
  assert_int_equal(cut(&(struct line_range){0, 0, true}, content, length, 1, &text, &error), -1);
  assert_string_equal(error.text, no_text);
  assert_int_equal(text.length, 6);
  buffer_release(&text);
}

#define TEN "a\nb\nc\nd\ne\nf\ng\nh\ni\nj"

/* Lines are joined by "\n", and unchanged without a range. The text behind the last "\n" is a
   line, even if it is empty. Numbers have the width of the last one. */
TEST(the_chosen_lines_are_cut) {
  static const struct {
    bool numbered;
    const char *content;
    unsigned start, count;
    const char *text;
  } rows[] = {
      {false, "one\ntwo\n", 0, 0, "one\ntwo\n"},
      {false, "one\ntwo", 0, 0, "one\ntwo"},
      {false, "one\r\ntwo\r\n", 0, 0, "one\r\ntwo\r\n"},
      {false, "", 0, 0, ""},
      {false, "\n", 0, 0, "\n"},
      {false, "\n\n", 0, 0, "\n\n"},
      {false, "line 4\nline 5\nline 6\nline 7\nline 8\n", 2, 3, "line 5\nline 6\nline 7"},
      {false, "one\ntwo\nthree\n", 1, 1, "one"},
      {false, "one\ntwo\nthree\n", 2, 0, "two\nthree\n"},
      {false, "one\ntwo\nthree\n", 2, 2, "two\nthree"},
      {false, "one\ntwo\nthree\n", 2, 3, "two\nthree\n"}, /* and an empty one */
      {false, "one\ntwo\nthree", 3, 1, "three"},
      {false, "one\ntwo\nthree", 2, 9, "two\nthree"},
      {false, "\n\nthree", 2, 1, ""},
      {false, "\n\nthree", 1, 2, "\n"},
      {false, "one\r\ntwo\r\n", 1, 1, "one\r"},
      {false, "one\rstill one\ntwo", 1, 1, "one\rstill one"},
      {false, "one\n", 1, 0, "one\n"},
      {false, "foo\n", 2, 0, ""},
      {true, "foo\n", 2, 0, "2\t"},
      {true, "foo\n", 3, 0, ""},
      {false, "one\ntwo", 3, 1, ""},
      {false, "one\ntwo", UINT_MAX, UINT_MAX, ""},
      {false, "", 1, 1, ""},
      {false, "", 2, 0, ""},
      {false, "one\ntwo", 2, UINT_MAX, "two"},
      {true, "foo\n", 0, 0, "1\tfoo\n2\t"},
      {true, "a\nb", 0, 0, "1\ta\n2\tb"},
      {true, "a\n\nb\r\n", 0, 0, "1\ta\n2\t\n3\tb\r\n4\t"},
      {true, TEN, 1, 1, " 1\ta"},
      {true, TEN, 9, 2, " 9\ti\n10\tj"},
      {true, TEN, 11, 0, ""},
      {true, "", 0, 0, "1\t"},
      {true, "a\nb\nc\nd\ne\nf\ng\nh\ni\n", 9, 1, " 9\ti"},
      {true, "a\nb\nc\nd\ne\nf\ng\nh\n", 8, 0, "8\th\n9\t"},
      {false, "\xEF\xBB\xBFone\ntwo", 0, 0, "one\ntwo"},
      {false, "\xEF\xBB\xBFone\ntwo", 2, 0, "two"},
      {true, "\xEF\xBB\xBFone", 0, 0, "1\tone"},
      {false, "\xEF\xBB\xBF", 0, 0, ""},
      {true, "\xEF\xBB\xBF", 0, 0, "1\t"},
      {false, "\xEF\xBB\xBF\xEF\xBB\xBF", 0, 0, "\xEF\xBB\xBF"},
      {false, "one\xEF\xBB\xBF", 0, 0, "one\xEF\xBB\xBF"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect_all(&(struct line_range){rows[i].start, rows[i].count, rows[i].numbered},
               rows[i].content, rows[i].text);
}

TEST(only_utf8_is_text) {
  expect_all(&(struct line_range){1, 1, false}, "K\xC3\xB6ln\n\xF0\x9F\x8D\xBA", "K\xC3\xB6ln");
  expect_refused("one\n\xFF", 5);
  expect_refused("\xEF\xBB", 2);     /* half a mark */
  expect_refused("\xFF\xFEo\0", 4);  /* UTF-16 */
  expect_refused("\xC0\x80", 2);     /* overlong */
  expect_refused("\xED\xA0\x80", 3); /* a surrogate */
  expect_refused("caf\xE9", 4);      /* Latin-1 */
  expect_refused("\xEF\xBB\xBF\xFF", 4);
}

TEST(only_the_chosen_lines_must_be_text) {
  expect_all(&(struct line_range){2, 1, true}, "\xFF\nb\n\xE2\x82", "2\tb");
  expect_all(&(struct line_range){4, 0, false}, "\xFF\nb\n\xE2\x82", "");
}

/* In a file of 1 MiB, numbers have the width of the last line's number; in a larger one, that of
   the last chosen line's. */
TEST(the_lines_of_a_large_file_are_not_counted) {
  for (size_t more = 0; more < 2; more++) {
    size_t length = LINE_CHOICE_COUNTED + more;
    char *content = malloc(length);
    assert_non_null(content);
    memset(content, '\n', length);
    memset(content, 'x', 5);
    expect_all_of(content, length, &(struct line_range){1, 2, true},
                  more == 0 ? "      1\txxxxx\n      2\t" : "1\txxxxx\n2\t");
    expect_all_of(content, length, &(struct line_range){9, 2, true},
                  more == 0 ? "      9\t\n     10\t" : " 9\t\n10\t");
    expect_all_of(content, length, &(struct line_range){1048570, 5, true},
                  more == 0 ? "1048570\t\n1048571\t\n1048572\t"
                            : "1048570\t\n1048571\t\n1048572\t\n1048573\t");
    free(content);
  }
}

/* Only chosen lines are kept, up to the bound. */
TEST(the_kept_text_is_bounded) {
  static char piece[65536];
  struct line_choice choice;
  memset(piece, 'x', sizeof piece);
  memcpy(piece + 100, "\nabc\n", 5);
  line_choice_init(&choice, &(struct line_range){.start_line = 30000}, 1000);
  for (size_t i = 0; i < 20000 && line_choice_goes_on(&choice); i++)
    line_choice_add(&choice, piece, sizeof piece);
  assert_int_equal(choice.text.length, 1000);
  assert_in_range(choice.text.capacity, 1000, 2000);
  assert_true(choice.bytes < (uint64_t)sizeof piece * 15002); /* it was enough */
  assert_true(line_choice_length(&choice) > 1000);
  line_choice_release(&choice);
}
