#include "base/buffer.h"
#include "tests/test.h"

static void assert_text(const struct buffer *text, const char *expected) {
  assert_int_equal(text->length, strlen(expected));
  assert_memory_equal(text->bytes, expected, text->length);
}

TEST(an_empty_one_has_no_memory) {
  struct buffer text = {0};
  buffer_add(&text, "", 0);
  buffer_add_string(&text, "");
  assert_null(text.bytes);
  buffer_release(&text);
}

TEST(all_that_is_added_follows_in_order) {
  struct buffer text = {0};
  buffer_add(&text, "abc", 2);
  buffer_add_string(&text, "-");
  buffer_add_number(&text, 18446744073709551615ULL);
  buffer_add_json(&text, "a\"\n\xFF", 4);
  assert_text(&text, "ab-18446744073709551615\"a\\\"\\n\xEF\xBF\xBD\"");
  buffer_release(&text);
  assert_null(text.bytes);
  assert_int_equal(text.length, 0);
}

TEST(it_grows_as_far_as_it_must) {
  struct buffer text = {0};
  for (int i = 0; i < 100000; i++)
    buffer_add(&text, "0123456789", 10);
  assert_int_equal(text.length, 1000000);
  assert_true(text.capacity < 2 * text.length);
  assert_memory_equal(text.bytes + 999990, "0123456789", 10);
  memset(buffer_space(&text, 5000000), 'x', 5000000);
  text.length += 5000000;
  assert_int_equal(text.bytes[999999], '9');
  assert_int_equal(text.bytes[1000000], 'x');
  buffer_release(&text);
}
