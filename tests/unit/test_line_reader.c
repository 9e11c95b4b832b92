#include "agent/frontends/line_reader.h"

#include "tests/test.h"

struct trial {
  struct line_reader reader;
  char text[512]; /* the lines so far, each in brackets; between "!" if it is too long */
};

static int set_up(void **state) {
  struct trial *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->reader.limit = 16;
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct trial *self = *state;
  line_reader_release(&self->reader);
  free(self);
  return 0;
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

static void take_lines(struct trial *self) {
  for (struct input_line line; line_reader_next(&self->reader, &line);) {
    size_t at = strlen(self->text);
    const char *begin = line.too_long ? "!" : "[", *end = line.too_long ? "!" : "]";
    snprintf(self->text + at, sizeof self->text - at, "%s%.*s%s", begin, (int)line.length,
             line.length > 0 ? line.text : "", line.too_long && line.length == 0 ? "" : end);
  }
}

/* Adds the bytes in pieces of this size. */
static void give(struct trial *self, const char *bytes, size_t length, size_t piece) {
  for (size_t at = 0; at < length; at += piece) {
    line_reader_add(&self->reader, bytes + at, length - at < piece ? length - at : piece);
    take_lines(self);
  }
}

/* Expects these lines for each size of the pieces. */
static void expect(struct trial *self, const char *bytes, const char *lines) {
  for (size_t piece = 1; piece <= strlen(bytes) + 1; piece++) {
    self->reader = (struct line_reader){.limit = self->reader.limit};
    self->text[0] = '\0';
    give(self, bytes, strlen(bytes), piece);
    line_reader_end(&self->reader);
    take_lines(self);
    assert_string_equal(self->text, lines);
    line_reader_release(&self->reader);
  }
}

TRIAL_TEST(a_line_ends_with_a_newline_or_the_stream) {
  expect(trial, "a\nbc\r\nd", "[a][bc][d]");
  expect(trial, "a\n", "[a]");
  expect(trial, "a\r", "[a]");
  expect(trial, "a\rb\r\r\n", "[a\rb\r]");
  expect(trial, "", "");
}

TRIAL_TEST(blank_lines_are_skipped) {
  expect(trial, "\n\r\n \t\r\na\n\n\n b \n  ", "[a][ b ]");
}

TRIAL_TEST(a_byte_order_mark_at_the_start_is_skipped) {
  expect(trial, "\xEF\xBB\xBF{}\n{}", "[{}][{}]");
  expect(trial, "\xEF\xBB\xBF\n{}", "[{}]");
  expect(trial, "\xEF\xBB\xBF", "");
  expect(trial, "\xEF\xBBx\n", "[\xEF\xBBx]");
  expect(trial, "\xEF\xBB", "[\xEF\xBB]");
  expect(trial, "a\n\xEF\xBB\xBF", "[a][\xEF\xBB\xBF]");
}

TRIAL_TEST(a_line_beyond_the_limit_is_reported_once_and_skipped) {
  trial->reader.limit = 3;
  expect(trial, "abc\nabcd\nabc\r\nabcd\r\nabcdefghijkl\na\n", "[abc]![abc]!![a]");
  expect(trial, "abcdefgh", "!");
  expect(trial, "abcd", "!");
  expect(trial, "      \n   \n    \r\na", "!![a]"); /* blank lines, too */
}

/* A string, a number and white space may go on without an end. */
TRIAL_TEST(a_line_beyond_the_limit_is_reported_at_its_end_and_not_kept) {
  static const char *const begins[] = {"0123456789012345678", "{\"a\":\"", "{\"a\":1", "{"};
  static const char fills[] = {'\0', 'x', '1', ' '};
  static char more[65536];
  for (size_t row = 0; row < sizeof fills; row++) {
    trial->text[0] = '\0';
    memset(more, fills[row], sizeof more);
    give(trial, begins[row], strlen(begins[row]), strlen(begins[row]));
    for (int i = 0; i < 1000; i++)
      give(trial, more, sizeof more, sizeof more);
    assert_string_equal(trial->text, "");
    assert_true(trial->reader.buffer.capacity < 1 << 20);
    give(trial, "\nb\n", 3, 3);
    assert_string_equal(trial->text, "![b]");
  }
}

/* Clients write the id before or after the parameters. */
TRIAL_TEST(the_id_of_a_line_beyond_the_limit_is_found) {
  expect(trial, "{\"id\":\"r1\",\"params\":{\"id\":2,\"x\":\"0123456789\"}}\na\n",
         "!{\"id\":\"r1\"}![a]");
  expect(trial, "{\"params\":{\"x\":[\"01\\\"34\",{}]},\"jsonrpc\":\"2.0\",\"id\":-1.5e3}\r\n",
         "!{\"jsonrpc\":\"2.0\",\"id\":-1.5e3}!");
  expect(trial, "{\"x\":\"\\ud83d\t\xFF\",\"id\":null}", "!{\"id\":null}!");
  expect(trial, "{\"params\":{},\"idx\":1,\"id\":{}}", "!");
}

/* A quadratic search would take hours. */
TRIAL_TEST(a_line_of_64_mib_in_small_pieces_is_searched_once) {
  enum { PIECE = 4096, LENGTH = 64 << 20 };
  static char piece[PIECE];
  memset(piece, 'x', sizeof piece);
  trial->reader.limit = LENGTH;
  int64_t end_ms = wait_now_ms() + WAIT_BOUND_MS;
  struct input_line line;
  for (size_t i = 0; i < LENGTH / PIECE; i++) {
    line_reader_add(&trial->reader, piece, PIECE);
    assert_false(line_reader_next(&trial->reader, &line));
    assert_true(wait_now_ms() < end_ms);
  }
  line_reader_add(&trial->reader, "\n", 1);
  assert_true(line_reader_next(&trial->reader, &line));
  assert_int_equal(line.length, LENGTH);
  assert_false(line_reader_next(&trial->reader, &line));
  assert_int_equal(trial->reader.buffer.capacity, 0);
}

TRIAL_TEST(many_lines_in_one_piece_take_linear_time) {
  enum { LENGTH = 8 << 20 };
  char *bytes = malloc(LENGTH);
  assert_non_null(bytes);
  for (size_t i = 0; i < LENGTH; i++)
    bytes[i] = i % 2 == 0 ? 'a' : '\n';
  int64_t end_ms = wait_now_ms() + WAIT_BOUND_MS;
  line_reader_add(&trial->reader, bytes, LENGTH);
  size_t lines = 0;
  for (struct input_line line; line_reader_next(&trial->reader, &line);) {
    lines++;
    assert_true(lines % 65536 != 0 || wait_now_ms() < end_ms);
  }
  assert_int_equal(lines, LENGTH / 2);
  free(bytes);
}
