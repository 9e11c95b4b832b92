#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static void it_formats_and_returns_minus_one(void **state) {
  (void)state;
  struct error error;
  assert_int_equal(error_set(&error, "%s: expected %d", "field", 7), -1);
  assert_string_equal(error.text, "field: expected 7");
}

static void a_long_text_is_cut_at_the_buffer_s_end(void **state) {
  (void)state;
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_formats_and_returns_minus_one),
      cmocka_unit_test(a_long_text_is_cut_at_the_buffer_s_end),
  };
  return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
