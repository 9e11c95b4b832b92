#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/step/transcript.h"

#define HEAD_MAX 1000000
#define TAIL_MAX 8192

/* A copy without a NUL behind it, so that the sanitizer sees one byte too many. */
static void add(struct transcript *transcript, bool from_stdout, const char *text, size_t length,
                bool partial) {
  char *copy = malloc(length > 0 ? length : 1);
  assert_non_null(copy);
  memcpy(copy, text, length);
  transcript_add(transcript, from_stdout, copy, length, partial);
  free(copy);
}

static void add_filled(struct transcript *transcript, bool from_stdout, char fill, size_t length,
                       bool partial) {
  char *text = malloc(length > 0 ? length : 1);
  assert_non_null(text);
  memset(text, fill, length);
  transcript_add(transcript, from_stdout, text, length, partial);
  free(text);
}

static void assert_head(const struct transcript *transcript, const char *expected) {
  size_t length = 1;
  const char *head = transcript_head(transcript, &length);
  assert_non_null(head);
  assert_int_equal(length, strlen(expected));
  assert_memory_equal(head, expected, length);
}

static void assert_tail(const struct transcript *transcript, const char *expected, size_t size) {
  size_t length = 1;
  const char *tail = transcript_tail(transcript, &length);
  assert_non_null(tail);
  assert_int_equal(length, size);
  assert_memory_equal(tail, expected, size);
}

static void without_output_there_is_nothing(void **state) {
  (void)state;
  struct transcript transcript;
  size_t length = 1;
  transcript_init(&transcript);
  assert_null(transcript_head(&transcript, &length));
  assert_int_equal(length, 0);
  length = 1;
  assert_null(transcript_tail(&transcript, &length));
  assert_int_equal(length, 0);
  transcript_release(&transcript);
}

static void the_head_is_stdout_and_the_tail_is_both(void **state) {
  (void)state;
  struct transcript transcript;
  transcript_init(&transcript);
  add(&transcript, false, "e1", 2, false);
  size_t length;
  assert_null(transcript_head(&transcript, &length));
  assert_tail(&transcript, "e1", 2);
  add(&transcript, true, "o1", 2, false);
  add(&transcript, true, "", 0, false);
  add(&transcript, false, "e2", 2, false);
  add(&transcript, true, "o\0002", 3, false);
  assert_int_equal(transcript.head_length, 8);
  assert_memory_equal(transcript_head(&transcript, &length), "o1\n\no\0002\n", 8);
  assert_tail(&transcript, "e1\no1\n\ne2\no\0002", 13);
  assert_tail(&transcript, "e1\no1\n\ne2\no\0002", 13); /* looking changes nothing */
  transcript_release(&transcript);
}

static void only_one_line_end_is_left_out(void **state) {
  (void)state;
  struct transcript transcript;
  transcript_init(&transcript);
  add(&transcript, true, "", 0, false);
  assert_head(&transcript, "\n");
  assert_tail(&transcript, "", 0);
  add(&transcript, true, "", 0, false);
  assert_tail(&transcript, "\n", 1);
  transcript_release(&transcript);
}

static void pieces_of_a_line_are_one_line(void **state) {
  (void)state;
  struct transcript transcript;
  transcript_init(&transcript);
  add(&transcript, true, "a", 1, true);
  assert_tail(&transcript, "a", 1);
  add(&transcript, true, "b", 1, true);
  add(&transcript, true, "c", 1, false);
  assert_head(&transcript, "abc\n");
  assert_tail(&transcript, "abc", 3);
  transcript_release(&transcript);
}

/* Around the bound, the line's own end included; what comes later is not taken either. */
static void the_head_ends_at_its_bound(void **state) {
  (void)state;
  for (size_t length = HEAD_MAX - 3; length <= HEAD_MAX + 3; length++) {
    struct transcript transcript;
    transcript_init(&transcript);
    add_filled(&transcript, true, 'x', length, false);
    add(&transcript, true, "y", 1, false);
    size_t got;
    const char *head = transcript_head(&transcript, &got);
    assert_int_equal(got, length + 1 < HEAD_MAX - 1 ? length + 3 : HEAD_MAX);
    for (size_t i = 0; i < got; i++) {
      char expected = i < length ? 'x' : (i - length) % 2 == 0 ? '\n' : 'y';
      if (head[i] != expected)
        fail_msg("%zu: byte %zu is 0x%02x", length, i, (unsigned char)head[i]);
    }
    transcript_release(&transcript);
  }
}

static void the_head_is_cut_between_characters(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t fits; /* that many bytes of it */
    size_t kept;
  } rows[] = {{"\xC3\xA9", 1, 0},         {"\xC3\xA9", 2, 2},
              {"\xE2\x82\xAC", 1, 0},     {"\xE2\x82\xAC", 2, 0},
              {"\xE2\x82\xAC", 3, 3},     {"\xF0\x9F\x98\x80", 1, 0},
              {"\xF0\x9F\x98\x80", 3, 0}, {"\xF0\x9F\x98\x80", 4, 4},
              {"\x80\x80\x80\x80", 3, 3}}; /* no UTF-8 is no reason to cut */
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct transcript transcript;
    transcript_init(&transcript);
    add_filled(&transcript, true, 'x', HEAD_MAX - rows[i].fits, true);
    add(&transcript, true, rows[i].text, strlen(rows[i].text), false);
    add(&transcript, true, "later", 5, false); /* does not fill the gap */
    size_t length;
    const char *head = transcript_head(&transcript, &length);
    assert_int_equal(length, HEAD_MAX - rows[i].fits + rows[i].kept);
    assert_memory_equal(head + length - rows[i].kept, rows[i].text, rows[i].kept);
    transcript_release(&transcript);
  }
}

/* Against all that was added, in one long buffer. */
static void the_tail_is_the_last_8_kib(void **state) {
  (void)state;
  static const size_t lengths[] = {0,    1,    79,    4095,  8190,  8191,  8192,
                                   8193, 8194, 16383, 16384, 16385, 40000, 262144};
  static char all[1200000];
  for (size_t start = 0; start < sizeof lengths / sizeof lengths[0]; start++) {
    struct transcript transcript;
    transcript_init(&transcript);
    size_t total = 0;
    for (size_t i = 0; i < 3 * sizeof lengths / sizeof lengths[0]; i++) {
      size_t length = lengths[(start + i * 5) % (sizeof lengths / sizeof lengths[0])];
      if (total + length + 1 > sizeof all)
        break;
      for (size_t k = 0; k < length; k++)
        all[total + k] = (char)('a' + (total + k) % 23);
      add(&transcript, i % 2 == 0, all + total, length, false);
      total += length;
      all[total++] = '\n';
      size_t kept = total < TAIL_MAX ? total : TAIL_MAX;
      assert_tail(&transcript, all + total - kept, kept - 1);
    }
    transcript_release(&transcript);
  }
}

static void the_tail_begins_between_characters(void **state) {
  (void)state;
  static const struct {
    const char *text; /* of it `lost` bytes are over the bound */
    size_t lost;
    size_t kept;
  } rows[] = {{"\xC3\xA9", 1, 0},
              {"\xE2\x82\xAC", 1, 0},
              {"\xE2\x82\xAC", 2, 0},
              {"\xE2\x82\xAC", 3, 0},
              {"\xF0\x9F\x98\x80", 1, 0},
              {"\xF0\x9F\x98\x80", 3, 0},
              {"x\xE2\x82\xAC", 1, 3},
              /* No more is taken for a broken character than one can be long. */
              {"\x80\x80\x80\x80\x80\x80", 1, 2}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct transcript transcript;
    transcript_init(&transcript);
    size_t size = strlen(rows[i].text);
    add(&transcript, false, rows[i].text, size, true);
    size_t fill = TAIL_MAX - (size - rows[i].lost);
    add_filled(&transcript, false, 'y', fill, true);
    size_t length;
    const char *tail = transcript_tail(&transcript, &length);
    assert_int_equal(length, fill + rows[i].kept);
    assert_memory_equal(tail, rows[i].text + size - rows[i].kept, rows[i].kept);
    transcript_release(&transcript);
  }
}

static void a_tail_that_fits_is_not_cut(void **state) {
  (void)state;
  struct transcript transcript;
  transcript_init(&transcript);
  add(&transcript, false, "\x80\x80", 2, true);
  add_filled(&transcript, false, 'y', TAIL_MAX - 2, true);
  size_t length;
  const char *tail = transcript_tail(&transcript, &length);
  assert_int_equal(length, TAIL_MAX);
  assert_memory_equal(tail, "\x80\x80yy", 4);
  transcript_release(&transcript);
}

static void content_is_bounded_and_no_tail(void **state) {
  (void)state;
  struct transcript transcript;
  transcript_init(&transcript);
  size_t length = 0;
  for (size_t filled = 0; filled < TRANSCRIPT_CONTENT_MAX + 1000000;) {
    size_t size;
    char *space = transcript_content_space(&transcript, &size);
    assert_true(size >= TRANSCRIPT_CONTENT_READ);
    memset(space, filled < TRANSCRIPT_CONTENT_MAX ? 'x' : 'y', size);
    transcript_content_filled(&transcript, size);
    filled += size;
  }
  const char *head = transcript_head(&transcript, &length);
  assert_int_equal(length, TRANSCRIPT_CONTENT_MAX);
  assert_true(transcript.head_capacity < 3 * TRANSCRIPT_CONTENT_MAX);
  assert_int_equal(head[0], 'x');
  (void)transcript_tail(&transcript, &length);
  assert_int_equal(length, 0);
  transcript_release(&transcript);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_output_there_is_nothing),
      cmocka_unit_test(the_head_is_stdout_and_the_tail_is_both),
      cmocka_unit_test(only_one_line_end_is_left_out),
      cmocka_unit_test(pieces_of_a_line_are_one_line),
      cmocka_unit_test(the_head_ends_at_its_bound),
      cmocka_unit_test(the_head_is_cut_between_characters),
      cmocka_unit_test(the_tail_is_the_last_8_kib),
      cmocka_unit_test(the_tail_begins_between_characters),
      cmocka_unit_test(a_tail_that_fits_is_not_cut),
      cmocka_unit_test(content_is_bounded_and_no_tail),
  };
  return cmocka_run_group_tests_name("transcript", tests, NULL, NULL);
}
