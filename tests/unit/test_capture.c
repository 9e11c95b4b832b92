#include "agent/engine/capture.h"
#include "agent/engine/lines.h"
#include "tests/test.h"

#define HEAD_MAX 1000000 /* UTF-16 units */
#define OUTPUT_TAIL_MAX 65536

/* Adds a copy without a NUL, so that the sanitizer reports a read beyond its end. */
static void add(struct capture *capture, bool from_stdout, const char *text, size_t length,
                bool partial) {
  char *copy = malloc(length > 0 ? length : 1);
  assert_non_null(copy);
  memcpy(copy, text, length);
  capture_add(capture, from_stdout, copy, length, partial);
  free(copy);
}

static void assert_head(struct capture *capture, const char *expected, size_t length) {
  const struct captured_stream head = capture_stream(capture, false);
  assert_false(head.truncated);
  assert_int_equal(head.length, length);
  assert_memory_equal(head.bytes, expected, length);
}

static void assert_errors(struct capture *capture, const char *expected, size_t size) {
  size_t length = 1;
  const char *tail = capture_errors(capture, &length);
  assert_non_null(tail);
  assert_int_equal(length, size);
  assert_memory_equal(tail, expected, size);
}

static int set_up(void **state) {
  static struct capture capture;
  capture_init(&capture, 0, 0);
  *state = &capture;
  return 0;
}

static int tear_down(void **state) {
  capture_release(*state);
  return 0;
}

#define CAPTURE_TEST(NAME) TEST_WITH(struct capture *capture, NAME, set_up, tear_down)

CAPTURE_TEST(the_head_has_stdout_and_the_tail_has_both_streams) {
  add(capture, false, "e1", 2, false);
  assert_head(capture, "", 0);
  assert_errors(capture, "e1", 2);
  add(capture, true, "o1", 2, false);
  add(capture, true, "", 0, false);
  add(capture, false, "e2", 2, false);
  add(capture, true, "o\0002", 3, false);
  assert_head(capture, "o1\n\no\0002\n", 8);
  assert_errors(capture, "e1\no1\n\ne2\no\0002", 13);
  assert_errors(capture, "e1\no1\n\ne2\no\0002", 13); /* reading changes nothing */
}

CAPTURE_TEST(only_one_newline_is_removed_at_the_end) {
  add(capture, true, "", 0, false);
  assert_head(capture, "\n", 1);
  assert_errors(capture, "", 0);
  add(capture, true, "", 0, false);
  assert_errors(capture, "\n", 1);
}

CAPTURE_TEST(partial_lines_are_one_line) {
  add(capture, true, "a", 1, true);
  assert_errors(capture, "a", 1);
  add(capture, true, "b", 1, true);
  add(capture, true, "c", 1, false);
  assert_head(capture, "abc\n", 4);
  assert_errors(capture, "abc", 3);
}

/* --- outputContent, against a model ----------------------------------------------------------- */

/* The characters of the lines, with the UTF-16 units that a reader of JSON counts. A letter follows
   an incomplete sequence, so that nothing can complete it. */
static const struct {
  const char *text;
  size_t units;
} CHARACTERS[] = {
    {"x", 1},
    {"\xC3\xA9", 1},
    {"\xE2\x82\xAC", 1},
    {"\xF0\x9F\x98\x80", 2},
    {"\xFF", 1},
    {"\x80\xBF\x80", 3},
    {"\xC3y", 2},
    {"\xE2\x82y", 2},
    {"\xF0\x9F\x98y", 2},
    {"\xED\xA0\x80", 3}, /* a surrogate */
    {"\xC0\xAF", 2},     /* an overlong form */
    {"", 1},             /* a NUL */
};
enum { CHARACTERS_COUNT = sizeof CHARACTERS / sizeof *CHARACTERS };

static size_t character_length(size_t which) {
  return CHARACTERS[which].text[0] != '\0' ? strlen(CHARACTERS[which].text) : 1;
}

/* A model of a command's output and its outputContent: a line and "\n" are appended while the body
   has fewer than a million units. */
struct model {
  char output[8 * HEAD_MAX];
  size_t output_length;
  char body[8 * HEAD_MAX]; /* all lines; the first `body_length` bytes are the body */
  size_t body_length, all_length;
  size_t units;
};

static struct model *model_new(void) {
  static struct model model;
  model.output_length = model.body_length = model.all_length = model.units = 0;
  return &model;
}

/* Adds a line of `count` characters. */
static void model_line(struct model *self, size_t which, size_t count, const char *ending) {
  size_t length = character_length(which);
  char *line = self->output + self->output_length;
  if (count == 0 && *ending == '\0')
    return; /* no line */
  if (length == 1)
    memset(line, CHARACTERS[which].text[0], count);
  for (size_t i = 0; length > 1 && i < count; i++)
    memcpy(line + i * length, CHARACTERS[which].text, length);
  memcpy(line + count * length, ending, strlen(ending));
  self->output_length += count * length + strlen(ending);
  memcpy(self->body + self->all_length, line, count * length);
  self->all_length += count * length;
  self->body[self->all_length++] = '\n';
  if (self->units >= HEAD_MAX)
    return;
  self->body_length = self->all_length;
  self->units += count * CHARACTERS[which].units + 1;
}

/* Captures the output of the model through a splitter, in reads of `size` bytes. */
static void take_output(struct capture *capture, size_t piece_max, const struct model *model,
                        size_t size) {
  struct line_splitter splitter;
  struct line line;
  line_splitter_init(&splitter, piece_max);
  for (size_t at = 0, n; at < model->output_length; at += n) {
    size_t capacity;
    char *space = line_splitter_space(&splitter, 0, &capacity);
    n = model->output_length - at;
    n = n < size ? n : size;
    n = n < capacity ? n : capacity;
    memcpy(space, model->output + at, n);
    line_splitter_filled(&splitter, n, n == capacity);
    while (line_splitter_next(&splitter, &line))
      capture_add(capture, true, line.text, line.length, line.partial);
  }
  line_splitter_end(&splitter);
  while (line_splitter_next(&splitter, &line))
    capture_add(capture, true, line.text, line.length, line.partial);
  line_splitter_release(&splitter);
}

/* The tail is the last 64 KiB, from the first line that begins in them, else from a character. */
static void expect_end(const struct model *model, const struct captured_stream *kept) {
  const size_t total = model->all_length;
  assert_int_equal(kept->truncated, kept->length < total);
  if (!kept->truncated) {
    assert_null(kept->tail);
    return;
  }
  const char *end = model->body + total, *at = end - OUTPUT_TAIL_MAX;
  const char *newline = memchr(at - 1, '\n', OUTPUT_TAIL_MAX);
  if (newline != NULL)
    at = newline + 1;
  for (int i = 0; newline == NULL && i < 3 && (*at & 0xC0) == 0x80; i++)
    at++;
  assert_int_equal(kept->total, total);
  if (kept->tail_length != (size_t)(end - at))
    fail_msg("%zu bytes of tail, expected %zu", kept->tail_length, (size_t)(end - at));
  assert_memory_equal(kept->tail, at, kept->tail_length);
}

static void expect_body(const struct model *model, const char *what) {
  struct capture capture;
  capture_init(&capture, 0, 0);
  take_output(&capture, LINE_BYTES_MAX, model, 64 * 1024);
  const struct captured_stream kept = capture_stream(&capture, false);
  if (kept.length != model->body_length)
    fail_msg("%s: %zu bytes, expected %zu", what, kept.length, model->body_length);
  if (kept.length > 0)
    assert_memory_equal(kept.bytes, model->body, kept.length);
  expect_end(model, &kept);
  capture_release(&capture);
}

/* Lines of random lengths, most short, some longer than the body. */
TEST(random_output_is_captured_as_in_the_model) {
  unsigned seed = 20261124;
  for (int trial = 0; trial < 12; trial++) {
    struct model *model = model_new();
    size_t most = trial % 4 == 0 ? 100000 : trial % 4 == 1 ? 3000 : 200;
    for (size_t total = 0; total < (size_t)HEAD_MAX + most;) {
      size_t count = (size_t)rand_r(&seed) % most;
      size_t which = (size_t)rand_r(&seed) % CHARACTERS_COUNT;
      model_line(model, which, count, rand_r(&seed) % 3 == 0 ? "\r\n" : "\n");
      total += count;
    }
    model_line(model, 3, trial % 5 == 0 ? HEAD_MAX : 5, "");
    expect_body(model, "random");
  }
}

/* A line that is longer than --line-bytes is split, and the body ends after a piece. */
TEST(a_split_line_is_cut_after_the_piece_that_reaches_the_bound) {
  enum { PIECE = 1024, PIECES = 2000 };
  for (size_t which = 0; which < 4; which++) {
    struct capture capture;
    struct model *model = model_new();
    capture_init(&capture, 0, 0);
    model_line(model, 0, 10, "\n");
    const size_t bytes = which + 1; /* of the first four characters */
    assert_int_equal(character_length(which), bytes);
    size_t count = (size_t)PIECE * PIECES / bytes;
    model_line(model, which, count, "\n");
    take_output(&capture, PIECE, model, 64 * 1024);
    const struct captured_stream kept = capture_stream(&capture, false);
    /* Each piece has as many whole characters as fit. */
    size_t piece = PIECE / bytes;
    size_t pieces =
        (HEAD_MAX - 11 + piece * CHARACTERS[which].units - 1) / (piece * CHARACTERS[which].units);
    size_t taken = pieces * piece < count ? pieces * piece : count;
    assert_int_equal(kept.length, 11 + taken * bytes + (taken == count));
    assert_memory_equal(kept.bytes, model->output, kept.length);
    assert_int_equal(kept.truncated, taken < count);
    if (kept.truncated)
      expect_end(model, &kept);
    capture_release(&capture);
  }
}

/* Around the bound, one more line makes it a cut. */
TEST(output_as_long_as_the_head_is_not_cut) {
  for (size_t more = 0; more < 3; more++) {
    struct model *model = model_new();
    model_line(model, 0, HEAD_MAX - 1, "\n");
    for (size_t i = 0; i < more; i++)
      model_line(model, 0, 0, "\n");
    expect_body(model, "around the bound");
  }
}

/* The end may begin exactly with a line, behind a line end, inside a character, or in a last line
   that is longer. */
TEST(the_kept_end_begins_with_a_whole_line_or_character) {
  static const size_t lasts[] = {4, 65532, 65533, 65534, 65535, 65536, 65537, 200000};
  for (size_t which = 0; which < 4; which++)
    for (size_t i = 0; i < sizeof lasts / sizeof *lasts; i++)
      for (size_t first = 0; first < 4; first++) {
        struct model *model = model_new();
        model_line(model, 0, HEAD_MAX, "\r\n");
        model_line(model, 0, first, "\r");
        model_line(model, which, lasts[i] / (which + 1), i % 2 == 0 ? "\n" : "");
        expect_body(model, "the end");
      }
}

CAPTURE_TEST(content_is_bounded_and_has_no_tail) {
  size_t length = 0;
  for (size_t filled = 0; filled < CAPTURE_CONTENT_MAX + 1000000;) {
    size_t size;
    char *space = capture_content_space(capture, 0, &size);
    assert_true(size >= CAPTURE_READ);
    memset(space, filled < CAPTURE_CONTENT_MAX ? 'x' : 'y', size);
    capture_content_filled(capture, size);
    filled += size;
  }
  const struct captured_stream kept = capture_stream(capture, false);
  assert_int_equal(kept.length, CAPTURE_CONTENT_MAX);
  assert_true(capture->streams[0].head.capacity < 3 * CAPTURE_CONTENT_MAX);
  assert_int_equal(kept.bytes[0], 'x');
  assert_false(kept.truncated);
  (void)capture_errors(capture, &length);
  assert_int_equal(length, 0);
}

/* --- raw -------------------------------------------------------------------------------------- */

static void fill_raw(struct capture *capture, bool is_stderr, const char *text, size_t length) {
  for (size_t n; length > 0; text += n, length -= n) {
    n = length < CAPTURE_READ ? length : CAPTURE_READ;
    memcpy(capture_raw_space(capture, 0), text, n);
    capture_raw_filled(capture, is_stderr, n);
  }
}

static char *numbers(size_t count, size_t *length) {
  char *text = malloc(count * 8 + 1);
  assert_non_null(text);
  *length = 0;
  for (size_t i = 0; i < count; i++)
    *length += (size_t)sprintf(text + *length, "%07zu\n", i);
  return text;
}

/* The beginning is unchanged, and the end begins with a whole line. */
TEST(both_ends_of_a_raw_stream_are_kept) {
  enum { LIMIT = 800, TAIL = 100 };
  size_t length;
  char *text = numbers(20000, &length);
  for (size_t size = 1; size <= length; size += size < 2000 ? 7 : 13001) {
    struct capture capture;
    capture_init(&capture, LIMIT, TAIL);
    fill_raw(&capture, true, text, size);
    assert_int_equal(capture_stream(&capture, false).length, 0);
    const struct captured_stream kept = capture_stream(&capture, true);
    assert_int_equal(kept.length, size < LIMIT ? size : LIMIT);
    assert_memory_equal(kept.bytes, text, kept.length);
    assert_int_equal(kept.truncated, size > LIMIT);
    if (kept.truncated) {
      const size_t begin = (size - TAIL + 7) / 8 * 8;
      assert_int_equal(kept.total, size);
      assert_int_equal(kept.tail_length, size - begin);
      assert_memory_equal(kept.tail, text + begin, size - begin);
    }
    char line[16];
    const size_t last = (size - 1) / 8 * 8, width = size - last < 7 ? size - last : 7;
    assert_int_equal(capture_last_line(&capture, line, sizeof line), width);
    assert_memory_equal(line, text + last, width);
    capture_release(&capture);
  }
  free(text);
}

TEST(newlines_after_the_head_do_not_count_as_truncation) {
  struct capture capture;
  capture_init(&capture, 4, 4);
  fill_raw(&capture, false, "abcd\n\n\n", 7);
  assert_false(capture_stream(&capture, false).truncated);
  fill_raw(&capture, false, "ef", 2);
  const struct captured_stream kept = capture_stream(&capture, false);
  assert_true(kept.truncated);
  assert_int_equal(kept.total, 9);
  assert_int_equal(kept.tail_length, 4);
  assert_memory_equal(kept.tail, "\n\nef", 4);
  capture_release(&capture);
}

TEST(without_a_tail_only_the_head_is_kept) {
  struct capture capture;
  capture_init(&capture, 4, 0);
  fill_raw(&capture, false, "ab\xC3\xA9\xC3\xA9", 6);
  const struct captured_stream kept = capture_stream(&capture, false);
  assert_true(kept.truncated);
  assert_int_equal(kept.length, 4);
  assert_null(kept.tail);
  assert_null(capture.streams[0].tail.bytes);
  capture_release(&capture);
}
