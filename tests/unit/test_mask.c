#include "base/mask.h"
#include "base/memory.h"
#include "base/secret_forms.h"
#include "tests/test.h"

/* --- fixture --------------------------------------------------------------------------------- */

static void add_value(struct masker *masker, const char *value) {
  assert_int_equal(masker_add(masker, value, strlen(value)), MASKER_MASKED);
}

static void assert_masked(struct masker *masker, const char *text, const char *expected) {
  char *bytes = memory_copy(text, strlen(text));
  mask_string(masker, bytes, false);
  assert_string_equal(bytes, expected);
  free(bytes);
}

/* The output of a stream so far. */
struct reader {
  struct mask_stream stream;
  struct buffer out;
};

/* An array of exactly the size that the header asks for. */
static void put_bytes(struct reader *self, const char *bytes, size_t length) {
  size_t held = mask_stream_held(&self->stream);
  char *capacity = memory_allocate(held + length + (held + length == 0));
  memset(capacity, '?', held);
  memcpy(capacity + held, bytes, length);
  size_t ready = mask_stream_put(&self->stream, capacity, length);
  assert_true(ready <= held + length);
  buffer_add(&self->out, capacity, ready);
  free(capacity);
}

static void put_string(struct reader *self, const char *string) {
  put_bytes(self, string, strlen(string));
}

static void assert_out(const struct reader *self, const char *expected) {
  char *out = memory_copy(self->out.bytes, self->out.length);
  assert_string_equal(out, expected);
  free(out);
}

/* --- values ---------------------------------------------------------------------------------- */

TEST(each_form_of_a_value_is_masked) {
  static const char value[] = "pa/ss \"w<o>r&d'\xC3\xA9\x01\n";
  struct masker masker = {0};
  add_value(&masker, value);
  for (enum secret_form form = 0; form < SECRET_FORMS; form++) {
    struct buffer text = {0};
    buffer_add_string(&text, "[");
    secret_form_add(form, value, sizeof value - 2, &text);
    buffer_add(&text, "]", 2);
    assert_masked(&masker, text.bytes, "[***]");
    buffer_release(&text);
  }
  masker_release(&masker);
}

TEST(short_values_are_not_masked) {
  struct masker masker = {0};
  assert_int_equal(masker_add(&masker, "", 0), MASKER_TOO_SHORT);
  assert_int_equal(masker_add(&masker, "12345", 5), MASKER_TOO_SHORT);
  assert_int_equal(masker_add(&masker, "12345\r\n", 7), MASKER_TOO_SHORT);
  assert_int_equal(masker_add(&masker, "12345\n67890\r12345", 17), MASKER_TOO_SHORT);
  assert_true(masker_is_empty(&masker));
  assert_int_equal(masker_add(&masker, "123456", 6), MASKER_MASKED);
  assert_false(masker_is_empty(&masker));
  assert_masked(&masker, "12345 123456", "12345 ***");
  masker_release(&masker);
}

TEST(each_line_of_a_value_is_masked_if_it_is_long_enough) {
  struct masker masker = {0};
  add_value(&masker, "{\r\n  \"key\": 1\r\nsecond line\rthe third\n}\n");
  assert_masked(&masker, "{\n  \"key\": 1\nthe third, second line\r}", "{\n  ***\n***, ***\r}");
  assert_masked(&masker, "\"{\\r\\n  \\\"key\\\": 1\\r\\nsecond line\\rthe third\\n}\"", "\"***\"");
  masker_release(&masker);
}

TEST(a_line_of_a_value_is_masked_in_each_form) {
  struct masker masker = {0};
  add_value(&masker, "{\n  \"key\": \"pa\\\"ss\",\n}\n");
  assert_masked(&masker, "{\"text\":\"  \\\"key\\\": \\\"pa\\\\\\\"ss\\\",\"}",
                "{\"text\":\"  ***\"}");
  masker_release(&masker);
}

/* The line end of a file is not printed by `$(cat file)`. */
TEST(blanks_and_line_ends_around_a_value_are_ignored) {
  struct masker masker = {0};
  add_value(&masker, "\r\n \tpassword \n");
  assert_masked(&masker, "password cGFzc3dvcmQ= cGFzc3dvcmQK 70617373776f7264",
                "*** ***Q= ***QK ***");
  masker_release(&masker);
}

TEST(the_number_of_values_is_bounded) {
  struct masker masker = {0};
  char value[16];
  for (size_t i = 0; i < MASKER_VALUES_MAX; i++) {
    (void)snprintf(value, sizeof value, "value-%zu", i);
    add_value(&masker, value);
  }
  assert_int_equal(masker_add(&masker, "another", 7), MASKER_FULL);
  assert_masked(&masker, "value-0 value-255 another", "*** *** another");
  masker_release(&masker);
}

TEST(the_length_of_a_value_is_bounded) {
  struct masker masker = {0};
  char *value = memory_allocate(MASKER_VALUE_MAX + 1);
  memset(value, 'a', MASKER_VALUE_MAX + 1);
  assert_int_equal(masker_add(&masker, value, MASKER_VALUE_MAX + 1), MASKER_TOO_LONG);
  assert_true(masker_is_empty(&masker));
  assert_int_equal(masker_add(&masker, value, MASKER_VALUE_MAX), MASKER_MASKED);
  memset(value, '\x1b', MASKER_VALUE_MAX);
  size_t bytes = masker.needles.text.length;
  assert_int_equal(masker_add(&masker, value, MASKER_VALUE_MAX - 100), MASKER_FULL);
  assert_int_equal(masker.needles.text.length, bytes);
  assert_int_equal(masker_add(&masker, value, 100), MASKER_MASKED);
  memset(value, 'b', MASKER_VALUE_MAX);
  assert_int_equal(masker_add(&masker, value, MASKER_VALUE_MAX - 99), MASKER_FULL);
  free(value);
  masker_release(&masker);
}

/* --- texts ----------------------------------------------------------------------------------- */

/* Comparing the whole needle at every place would take hours. */
TEST(a_long_needle_of_one_letter_takes_no_longer_than_others) {
  const size_t text_length = MASKER_VALUE_MAX * 16;
  char *letters = memory_allocate(text_length);
  memset(letters, 'a', text_length);
  struct masker masker = {0};
  needles_add(&masker.needles, letters, MASKER_VALUE_MAX);
  struct reader reader = {0};
  mask_stream_init(&reader.stream, &masker);
  put_bytes(&reader, letters, text_length);
  put_string(&reader, "b");
  put_bytes(&reader, letters, MASKER_VALUE_MAX - 1);
  assert_out(&reader, "***b");
  assert_int_equal(mask_stream_held(&reader.stream), MASKER_VALUE_MAX - 1);
  put_string(&reader, "c");
  assert_int_equal(reader.out.length, 4 + MASKER_VALUE_MAX);
  mask_stream_release(&reader.stream);
  buffer_release(&reader.out);
  masker_release(&masker);
  free(letters);
}

/* --- values that are not held ----------------------------------------------------------------- */

static enum masker_answer add_numbered(struct masker *masker, unsigned number) {
  char value[32];
  (void)snprintf(value, sizeof value, "value-number-%u.", number);
  return masker_add(masker, value, strlen(value));
}

static void let_go_numbered(struct masker *masker, unsigned number) {
  char value[32];
  (void)snprintf(value, sizeof value, "value-number-%u.", number);
  masker_let_go(masker, value, strlen(value));
}

static bool is_masked(struct masker *masker, unsigned number) {
  char text[32];
  (void)snprintf(text, sizeof text, "value-number-%u.", number);
  mask_string(masker, text, false);
  return strcmp(text, MASK) == 0;
}

TEST(the_oldest_unheld_value_is_dropped) {
  struct masker masker = {0};
  for (unsigned i = 0; i < MASKER_VALUES_MAX; i++)
    assert_int_equal(add_numbered(&masker, i), MASKER_MASKED);
  assert_int_equal(add_numbered(&masker, 1000), MASKER_FULL);
  for (unsigned i = 0; i < MASKER_VALUES_MAX; i++)
    if (i != 1 && i != 2)
      let_go_numbered(&masker, i);
  assert_int_equal(add_numbered(&masker, 3), MASKER_MASKED); /* again: it is the newest now */
  let_go_numbered(&masker, 3);
  assert_int_equal(add_numbered(&masker, 1000), MASKER_MASKED);
  assert_false(is_masked(&masker, 0));
  assert_true(is_masked(&masker, 1));
  assert_true(is_masked(&masker, 2));
  assert_true(is_masked(&masker, 3));
  assert_true(is_masked(&masker, MASKER_VALUES_MAX - 1));
  assert_true(is_masked(&masker, 1000));
  masker_release(&masker);
}

TEST(a_value_may_be_held_more_than_once) {
  struct masker masker = {0};
  for (unsigned i = 0; i < MASKER_VALUES_MAX; i++)
    assert_int_equal(add_numbered(&masker, i), MASKER_MASKED);
  assert_int_equal(add_numbered(&masker, 5), MASKER_MASKED);
  let_go_numbered(&masker, 5);
  assert_int_equal(add_numbered(&masker, 1000), MASKER_FULL);
  let_go_numbered(&masker, 5);
  assert_int_equal(add_numbered(&masker, 1000), MASKER_MASKED);
  masker_release(&masker);
}

static size_t three_thousand(void) {
  return 3000;
}

TEST(the_total_size_of_values_is_bounded) {
  struct masker masker = {.bytes_max = three_thousand};
  char value[2001];
  for (int i = 0; i < 8; i++) {
    memset(value, 'a' + i, sizeof value - 1);
    value[sizeof value - 1] = '\0';
    assert_int_equal(masker_add(&masker, value, sizeof value - 1), MASKER_MASKED);
    masker_let_go(&masker, value, sizeof value - 1);
    mask_string(&masker, value, false);
    assert_string_equal(value, MASK);
  }
  assert_int_equal(masker.value_count, 1);
  assert_int_equal(masker_add(&masker, value, 3), MASKER_TOO_SHORT);
  masker_release(&masker);
}

static void drop_all(struct masker *masker) {
  for (unsigned i = 0; i < MASKER_VALUES_MAX; i++)
    let_go_numbered(masker, i);
  for (unsigned i = 2000; i < 2000 + 2 * MASKER_VALUES_MAX; i++) {
    assert_int_equal(add_numbered(masker, i), MASKER_MASKED);
    let_go_numbered(masker, i);
  }
}

/* The last "a" of the text belongs to an occurrence that begins before the bytes that the stream
   holds, which are the beginning of another value. */
TEST(the_end_of_a_value_is_masked_although_another_one_is_added) {
  struct masker masker = {0};
  struct reader reader = {0};
  add_value(&masker, "aaaaaa");
  add_value(&masker, "aab-value");
  mask_stream_init(&reader.stream, &masker);
  put_string(&reader, "aaaaaa");
  put_string(&reader, "a");
  put_string(&reader, "b");
  add_value(&masker, "a-third-value");
  put_string(&reader, "!");
  assert_out(&reader, MASK "b!");
  mask_stream_release(&reader.stream);
  buffer_release(&reader.out);
  masker_release(&masker);
}

/* Two streams hold back the beginning of a value, and one of the two values is dropped. */
TEST(held_bytes_outlive_their_value) {
  static const char kept[] = "another-value", dropped[] = "value-number-7.";
  struct masker masker = {0};
  struct mask_stream streams[2];
  char text[64];
  add_value(&masker, kept);
  for (unsigned i = 0; i < MASKER_VALUES_MAX - 1; i++)
    assert_int_equal(add_numbered(&masker, i), MASKER_MASKED);
  for (size_t cut = 1; cut < sizeof kept - 1; cut++) {
    const char *const values[] = {kept, dropped};
    assert_int_equal(add_numbered(&masker, 7), MASKER_MASKED);
    for (int i = 0; i < 2; i++) {
      mask_stream_init(&streams[i], &masker);
      memcpy(text, values[i], cut);
      assert_int_equal(mask_stream_put(&streams[i], text, cut), 0);
    }
    let_go_numbered(&masker, 7);
    drop_all(&masker);
    for (int i = 0; i < 2; i++) {
      const char *const expected[] = {MASK "!", "value-number-7.!"};
      size_t held = mask_stream_held(&streams[i]), left = strlen(values[i]) - cut;
      memcpy(text + held, values[i] + cut, left);
      text[held + left] = '!';
      size_t length = mask_stream_put(&streams[i], text, left + 1);
      length += mask_stream_end(&streams[i], text + length);
      assert_int_equal(length, strlen(expected[i]));
      assert_memory_equal(text, expected[i], length);
      mask_stream_release(&streams[i]);
    }
  }
  masker_release(&masker);
}
