#include "base/error.h"
#include "tests/test.h"

TEST(it_formats_and_returns_minus_one) {
  struct error error;
  assert_int_equal(error_set(&error, "%s: expected %d", "field", 7), -1);
  assert_string_equal(error.text, "field: expected 7");
}

TEST(a_long_text_is_cut_at_the_buffer_s_end) {
  char text[2 * sizeof(struct error)];
  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = '\0';
  struct {
    struct error error;
    char next;
  } room = {.next = '!'};
  assert_int_equal(error_set(&room.error, "%s", text), -1);
  assert_int_equal(strlen(room.error.text), sizeof room.error.text - 1);
  assert_int_equal(room.next, '!');
}
