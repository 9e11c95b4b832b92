#include "base/error.h"
#include "base/utf8.h"
#include "tests/test.h"

TEST(the_reason_can_be_separated_from_the_subject) {
  struct error error;
  assert_int_equal(error_set(&error, "file: 1: %s: %d", "wrong", 7), -1);
  assert_string_equal(error.text, "file: 1: wrong: 7");
  error.why = strlen("file: 1: ");
  assert_string_equal(error_why(&error), "wrong: 7");
  assert_int_equal(error.code, 0);
  error.code = 2;
  (void)error_set(&error, "payload: x");
  assert_string_equal(error_why(&error), "payload: x");
  assert_int_equal(error.code, 0);
}

/* The reason comes first, and the file last. */
TEST(a_long_text_is_cut_in_its_middle) {
  enum { MAX = sizeof((struct error *)NULL)->text - 1, HEAD = 100 };
  char text[MAX + 2];
  for (size_t i = 0; i < sizeof text; i++)
    text[i] = (char)('a' + i % 26);
  text[MAX] = '\0';
  struct {
    struct error error;
    char next;
  } capacity = {.next = '!'};
  assert_int_equal(error_set(&capacity.error, "%s", text), -1);
  assert_string_equal(capacity.error.text, text); /* it fits */
  assert_int_equal(error_set(&capacity.error, "%s%s", text, "the end"), -1);
  assert_int_equal(strlen(capacity.error.text), MAX);
  assert_memory_equal(capacity.error.text, text, HEAD);
  assert_memory_equal(capacity.error.text + HEAD, "\u2026", 3);
  assert_string_equal(capacity.error.text + MAX - 10, formatted("%sthe end", text + MAX - 3));
  assert_int_equal(capacity.next, '!');
}

TEST(a_cut_leaves_characters_whole) {
  struct error error;
  char text[601] = "";
  for (size_t begin = 0; begin < 3; begin++) {
    memset(text, 'x', begin);
    for (size_t i = begin; i + 3 < sizeof text; i += 3)
      memcpy(text + i, "\u20AC", 4);
    (void)error_set(&error, "%s", text);
    assert_int_equal(utf8_valid_prefix(error.text, strlen(error.text)), strlen(error.text));
    assert_in_range(strlen(error.text), sizeof error.text - 6, sizeof error.text - 1);
  }
}

/* Names of files may have any bytes. */
TEST(invalid_utf8_is_cut_too) {
  struct error error;
  char text[601];
  memset(text, 0x80, sizeof text - 1);
  text[600] = '\0';
  (void)error_set(&error, "%s", text);
  assert_in_range(strlen(error.text), sizeof error.text - 6, sizeof error.text - 1);
}
