#include "agent/engine/capture.h"
#include "tests/test.h"

#define HEAD_MAX 1000000
#define TAIL_MAX 8192

/* A copy without a NUL after it, so that the sanitizer sees one byte too many. */
static void add(struct capture *capture, bool from_stdout, const char *text, size_t length,
                bool partial) {
  char *copy = malloc(length > 0 ? length : 1);
  assert_non_null(copy);
  memcpy(copy, text, length);
  capture_add(capture, from_stdout, copy, length, partial);
  free(copy);
}

static void add_filled(struct capture *capture, bool from_stdout, char fill, size_t length,
                       bool partial) {
  char *text = malloc(length > 0 ? length : 1);
  assert_non_null(text);
  memset(text, fill, length);
  capture_add(capture, from_stdout, text, length, partial);
  free(text);
}

static void assert_head(const struct capture *capture, const char *expected) {
  size_t length = 1;
  const char *head = capture_head(capture, &length);
  assert_non_null(head);
  assert_int_equal(length, strlen(expected));
  assert_memory_equal(head, expected, length);
}

static void assert_tail(const struct capture *capture, const char *expected, size_t size) {
  size_t length = 1;
  const char *tail = capture_tail(capture, &length);
  assert_non_null(tail);
  assert_int_equal(length, size);
  assert_memory_equal(tail, expected, size);
}

static int set_up(void **state) {
  static struct capture capture;
  capture_init(&capture);
  *state = &capture;
  return 0;
}

static int tear_down(void **state) {
  capture_release(*state);
  return 0;
}

#define CAPTURE_TEST(NAME) TEST_WITH(struct capture *capture, NAME, set_up, tear_down)

CAPTURE_TEST(without_output_there_is_nothing) {
  size_t length = 1;
  assert_null(capture_head(capture, &length));
  assert_int_equal(length, 0);
  length = 1;
  assert_null(capture_tail(capture, &length));
  assert_int_equal(length, 0);
}

CAPTURE_TEST(the_head_is_stdout_and_the_tail_is_both) {
  add(capture, false, "e1", 2, false);
  size_t length;
  assert_null(capture_head(capture, &length));
  assert_tail(capture, "e1", 2);
  add(capture, true, "o1", 2, false);
  add(capture, true, "", 0, false);
  add(capture, false, "e2", 2, false);
  add(capture, true, "o\0002", 3, false);
  assert_int_equal(capture->head_length, 8);
  assert_memory_equal(capture_head(capture, &length), "o1\n\no\0002\n", 8);
  assert_tail(capture, "e1\no1\n\ne2\no\0002", 13);
  assert_tail(capture, "e1\no1\n\ne2\no\0002", 13); /* looking changes nothing */
}

CAPTURE_TEST(only_one_line_end_is_left_out) {
  add(capture, true, "", 0, false);
  assert_head(capture, "\n");
  assert_tail(capture, "", 0);
  add(capture, true, "", 0, false);
  assert_tail(capture, "\n", 1);
}

CAPTURE_TEST(pieces_of_a_line_are_one_line) {
  add(capture, true, "a", 1, true);
  assert_tail(capture, "a", 1);
  add(capture, true, "b", 1, true);
  add(capture, true, "c", 1, false);
  assert_head(capture, "abc\n");
  assert_tail(capture, "abc", 3);
}

/* Around the bound, the line's own end included; what comes later is not taken either. */
TEST(the_head_ends_at_its_bound) {
  for (size_t length = HEAD_MAX - 3; length <= HEAD_MAX + 3; length++) {
    struct capture capture;
    capture_init(&capture);
    add_filled(&capture, true, 'x', length, false);
    add(&capture, true, "y", 1, false);
    size_t got;
    const char *head = capture_head(&capture, &got);
    assert_int_equal(got, length + 1 < HEAD_MAX - 1 ? length + 3 : HEAD_MAX);
    for (size_t i = 0; i < got; i++) {
      char expected = i < length ? 'x' : (i - length) % 2 == 0 ? '\n' : 'y';
      if (head[i] != expected)
        fail_msg("%zu: byte %zu is 0x%02x", length, i, (unsigned char)head[i]);
    }
    capture_release(&capture);
  }
}

TEST(the_head_is_cut_between_characters) {
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
    struct capture capture;
    capture_init(&capture);
    add_filled(&capture, true, 'x', HEAD_MAX - rows[i].fits, true);
    add(&capture, true, rows[i].text, strlen(rows[i].text), false);
    add(&capture, true, "later", 5, false); /* does not fill the gap */
    size_t length;
    const char *head = capture_head(&capture, &length);
    assert_int_equal(length, HEAD_MAX - rows[i].fits + rows[i].kept);
    assert_memory_equal(head + length - rows[i].kept, rows[i].text, rows[i].kept);
    capture_release(&capture);
  }
}

/* Against all that was added, in one long buffer. */
TEST(the_tail_is_the_last_8_kib) {
  static const size_t lengths[] = {0,    1,    79,    4095,  8190,  8191,  8192,
                                   8193, 8194, 16383, 16384, 16385, 40000, 262144};
  static char all[1200000];
  for (size_t start = 0; start < sizeof lengths / sizeof lengths[0]; start++) {
    struct capture capture;
    capture_init(&capture);
    size_t total = 0;
    for (size_t i = 0; i < 3 * sizeof lengths / sizeof lengths[0]; i++) {
      size_t length = lengths[(start + i * 5) % (sizeof lengths / sizeof lengths[0])];
      if (total + length + 1 > sizeof all)
        break;
      for (size_t k = 0; k < length; k++)
        all[total + k] = (char)('a' + (total + k) % 23);
      add(&capture, i % 2 == 0, all + total, length, false);
      total += length;
      all[total++] = '\n';
      size_t kept = total < TAIL_MAX ? total : TAIL_MAX;
      assert_tail(&capture, all + total - kept, kept - 1);
    }
    capture_release(&capture);
  }
}

TEST(the_tail_begins_between_characters) {
  static const struct {
    const char *text; /* of it `lost` bytes are over the bound */
    size_t lost, kept;
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
    struct capture capture;
    capture_init(&capture);
    size_t size = strlen(rows[i].text);
    add(&capture, false, rows[i].text, size, true);
    size_t fill = TAIL_MAX - (size - rows[i].lost);
    add_filled(&capture, false, 'y', fill, true);
    size_t length;
    const char *tail = capture_tail(&capture, &length);
    assert_int_equal(length, fill + rows[i].kept);
    assert_memory_equal(tail, rows[i].text + size - rows[i].kept, rows[i].kept);
    capture_release(&capture);
  }
}

CAPTURE_TEST(a_tail_that_fits_is_not_cut) {
  add(capture, false, "\x80\x80", 2, true);
  add_filled(capture, false, 'y', TAIL_MAX - 2, true);
  size_t length;
  const char *tail = capture_tail(capture, &length);
  assert_int_equal(length, TAIL_MAX);
  assert_memory_equal(tail, "\x80\x80yy", 4);
}

CAPTURE_TEST(content_is_bounded_and_no_tail) {
  size_t length = 0;
  for (size_t filled = 0; filled < CAPTURE_CONTENT_MAX + 1000000;) {
    size_t size;
    char *space = capture_content_space(capture, &size);
    assert_true(size >= CAPTURE_CONTENT_READ);
    memset(space, filled < CAPTURE_CONTENT_MAX ? 'x' : 'y', size);
    capture_content_filled(capture, size);
    filled += size;
  }
  const char *head = capture_head(capture, &length);
  assert_int_equal(length, CAPTURE_CONTENT_MAX);
  assert_true(capture->head_capacity < 3 * CAPTURE_CONTENT_MAX);
  assert_int_equal(head[0], 'x');
  (void)capture_tail(capture, &length);
  assert_int_equal(length, 0);
}
