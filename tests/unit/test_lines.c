#include "agent/engine/lines.h"
#include "tests/test.h"

#define EURO "\xE2\x82\xAC"
#define PIECE_MAX ((size_t)300 * 1024)
#define MARK "\xEF\xBB\xBF"

/* The lines as one text: each in brackets, a partial one with a ~ at its end. */
struct record {
  char *text;
  size_t length;
  size_t pieces;
};

static void record_init(struct record *self, size_t bytes) {
  *self = (struct record){.text = malloc(3 * bytes + 16)};
  assert_non_null(self->text);
}

static void record_piece(struct record *self, const struct line *line) {
  assert_true(line->length <= PIECE_MAX);
  self->text[self->length++] = '[';
  if (line->length > 0)
    memcpy(self->text + self->length, line->text, line->length);
  self->length += line->length;
  self->text[self->length++] = line->partial ? '~' : ']';
  self->pieces++;
}

/* A model that reads one byte after the other. */
static void slow_split(struct record *self, const char *text, size_t length) {
  bool open = false;
  for (size_t i = 0; i < length; i++) {
    if (text[i] == '\n' && i > 0 && text[i - 1] == '\r')
      continue;
    if (!open)
      self->text[self->length++] = '[';
    open = text[i] != '\n' && text[i] != '\r';
    self->text[self->length++] = open ? text[i] : ']';
  }
  if (open)
    self->text[self->length++] = ']';
}

static void drain(struct line_splitter *splitter, struct record *record) {
  struct line line;
  while (line_splitter_next(splitter, &line))
    record_piece(record, &line);
}

/* Reads as much as fits into the space, but at most `size` bytes at a time. */
static void feed(struct line_splitter *splitter, struct record *record, const char *text,
                 size_t length, size_t size) {
  while (length > 0) {
    size_t capacity;
    char *space = line_splitter_space(splitter, 0, &capacity);
    assert_true(capacity >= LINE_SPLITTER_FIRST_READ);
    size_t n = length < size ? length : size;
    n = n < capacity ? n : capacity;
    memcpy(space, text, n);
    line_splitter_filled(splitter, n, n == capacity);
    drain(splitter, record);
    text += n;
    length -= n;
  }
}

static void finish(struct line_splitter *splitter, struct record *record) {
  line_splitter_end(splitter);
  drain(splitter, record);
  struct line line;
  assert_false(line_splitter_next(splitter, &line));
  line_splitter_release(splitter);
}

/* The pieces of a text that is read in portions of `size`. */
static struct record split(const char *text, size_t length, size_t size) {
  struct line_splitter splitter;
  struct record record;
  line_splitter_init(&splitter, PIECE_MAX);
  record_init(&record, length);
  feed(&splitter, &record, text, length, size);
  finish(&splitter, &record);
  return record;
}

static void assert_record(struct record *self, const char *text, size_t length) {
  assert_int_equal(self->length, length);
  assert_memory_equal(self->text, text, length);
  free(self->text);
}

/* Splits a text that is read in two parts. */
static struct record split_at(const char *text, size_t length, size_t at) {
  struct line_splitter splitter;
  struct record record;
  line_splitter_init(&splitter, PIECE_MAX);
  record_init(&record, length);
  feed(&splitter, &record, text, at, at);
  feed(&splitter, &record, text + at, length - at, length - at);
  finish(&splitter, &record);
  return record;
}

TEST(each_ending_ends_a_line) {
  static const struct {
    const char *text, *pieces;
  } rows[] = {
      {"", ""},
      {"\n", "[]"},
      {"\r", "[]"},
      {"\r\n", "[]"},
      {"a\nb\r\nc\rd", "[a][b][c][d]"},
      {"a\n\nb\n", "[a][][b]"},
      {" 10%\r 20%\r 30%\r\ndone\n", "[ 10%][ 20%][ 30%][done]"},
      {"\x80\xFF\n" EURO, "[\x80\xFF][" EURO "]"},
      /* Unicode's other line ends are none. */
      {"a\vb\fc\xC2\205d\xE2\x80\250e\n", "[a\vb\fc\xC2\205d\xE2\x80\250e]"},
      /* Only one whole byte order mark is dropped, at the beginning. */
      {MARK, ""},
      {MARK "\n", "[]"},
      {MARK "a\n" MARK "b", "[a][" MARK "b]"},
      {MARK MARK "a", "[" MARK "a]"},
      {"\n" MARK "a", "[][" MARK "a]"},
      {"\xEF", "[\xEF]"},
      {"\xEF\xBB", "[\xEF\xBB]"},
      {"\xEF\xBB\n", "[\xEF\xBB]"},
      {"\xEF\nb", "[\xEF][b]"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    size_t length = strlen(rows[i].text);
    for (size_t size = 1; size <= length + 1; size++) {
      struct record record = split(rows[i].text, length, size);
      assert_record(&record, rows[i].pieces, strlen(rows[i].pieces));
    }
    for (size_t at = 0; at <= length; at++) {
      struct record record = split_at(rows[i].text, length, at);
      assert_record(&record, rows[i].pieces, strlen(rows[i].pieces));
    }
  }
}

/* Every text of up to eight of these bytes, cut in two at every point. */
TEST(every_text_at_every_split_point) {
  static const char alphabet[] = "x\n\r";
  for (size_t length = 0, count = 1; length <= 8; length++, count *= 3) {
    for (size_t index = 0; index < count; index++) {
      char text[8];
      for (size_t i = 0, rest = index; i < length; i++, rest /= 3)
        text[i] = alphabet[rest % 3];
      struct record expected;
      record_init(&expected, length);
      slow_split(&expected, text, length);
      for (size_t at = 0; at <= length; at++) {
        struct record record = split_at(text, length, at);
        assert_record(&record, expected.text, expected.length);
      }
      free(expected.text);
    }
  }
}

/* Line ends at each place of a word, beside bytes that could cause a borrow in the scan. */
TEST(a_line_end_is_found_at_every_offset_in_a_word) {
  static const char fill[] = {'x', '\v', '\t', '\f', '\x0E', '\x8A', '\x8D', '\0'};
  for (size_t f = 0; f < sizeof fill; f++) {
    for (size_t length = 0; length < 40; length++) {
      char text[41];
      char expected[43];
      memset(text, fill[f], length);
      text[length] = length % 2 == 0 ? '\n' : '\r';
      struct record record = split(text, length + 1, sizeof text);
      expected[0] = '[';
      memset(expected + 1, fill[f], length);
      expected[length + 1] = ']';
      assert_record(&record, expected, length + 2);
    }
  }
}

TEST(a_lone_cr_ends_its_line_at_once) {
  struct line_splitter splitter;
  struct record record;
  line_splitter_init(&splitter, PIECE_MAX);
  record_init(&record, 64);
  feed(&splitter, &record, " 10%\r", 5, 5);
  assert_int_equal(record.pieces, 1);
  feed(&splitter, &record, "\n", 1, 1);
  assert_int_equal(record.pieces, 1);
  feed(&splitter, &record, "\n", 1, 1);
  assert_int_equal(record.pieces, 2);
  finish(&splitter, &record);
  assert_record(&record, "[ 10%][]", 8);
}

TEST(the_caller_may_stop_between_two_lines) {
  struct line_splitter splitter;
  line_splitter_init(&splitter, PIECE_MAX);
  size_t size;
  memcpy(line_splitter_space(&splitter, 0, &size), "a\nb\nc", 5);
  line_splitter_filled(&splitter, 5, false);
  struct line line;
  assert_true(line_splitter_next(&splitter, &line));
  /* The end comes before the rest is read. */
  line_splitter_end(&splitter);
  struct record record;
  record_init(&record, 5);
  finish(&splitter, &record);
  assert_record(&record, "[b][c]", 6);
}

/* Checks a line of `length` bytes, where `shift` moves the euro signs over the cut. */
static void check_long_line(size_t length, size_t shift, const char *ending, size_t size) {
  size_t total = length + strlen(ending);
  char *text = malloc(total);
  assert_non_null(text);
  memset(text, 'x', length);
  for (size_t at = shift; at + 3 <= length; at += 3)
    memcpy(text + at, EURO, 3);
  memcpy(text + length, ending, strlen(ending));

  char *expected = malloc(2 * total + 16);
  assert_non_null(expected);
  size_t n = 0;
  size_t at = 0;
  while (length - at > PIECE_MAX) {
    size_t piece = PIECE_MAX;
    while (((unsigned char)text[at + piece] & 0xC0) == 0x80)
      piece--;
    expected[n++] = '[';
    memcpy(expected + n, text + at, piece);
    n += piece;
    expected[n++] = '~';
    at += piece;
  }
  expected[n++] = '[';
  memcpy(expected + n, text + at, length - at);
  n += length - at;
  expected[n++] = ']';

  struct record record = split(text, total, size);
  assert_record(&record, expected, n);
  free(expected);
  free(text);
}

TEST(a_long_line_is_split) {
  static const char *const endings[] = {"", "\n", "\r", "\r\n"};
  static const size_t sizes[] = {4096, LINE_SPLITTER_READ, SIZE_MAX};
  for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
      for (size_t shift = 0; shift < 3; shift++) {
        for (size_t length = PIECE_MAX - 3; length <= PIECE_MAX + 3; length++)
          check_long_line(length, shift, endings[e], sizes[s]);
        check_long_line(3 * PIECE_MAX, shift, endings[e], sizes[s]);
      }
    }
  }
}

/* Bytes that look like the inside of an endless sequence. */
TEST(bytes_that_are_no_utf8_are_cut_at_the_limit) {
  size_t length = PIECE_MAX + 10;
  char *text = malloc(length);
  assert_non_null(text);
  memset(text, '\x80', length);
  struct record record = split(text, length, SIZE_MAX);
  assert_int_equal(record.pieces, 2);
  assert_int_equal(record.text[1 + PIECE_MAX], '~');
  free(record.text);
  free(text);
}

/* Whether the line was whole or in pieces. */
TEST(the_memory_of_a_long_line_is_freed) {
  struct line_splitter splitter;
  struct line line;
  line_splitter_init(&splitter, LINE_BYTES_DEFAULT);
  for (size_t length = LINE_BYTES_DEFAULT - 1; length <= LINE_BYTES_DEFAULT + 1; length++) {
    for (size_t left = length; left > 0;) {
      size_t capacity;
      char *space = line_splitter_space(&splitter, 0, &capacity);
      capacity = capacity < left ? capacity : left;
      memset(space, 'x', capacity);
      left -= capacity;
      if (left == 0)
        space[capacity - 1] = '\n';
      line_splitter_filled(&splitter, capacity, true);
      if (left > 0)
        assert_false(line_splitter_next(&splitter, &line));
    }
    assert_true(splitter.capacity > LINE_SPLITTER_KEPT);
    assert_true(line_splitter_next(&splitter, &line));
    assert_int_equal(line.length, length - 1);
    assert_false(line_splitter_next(&splitter, &line));
    assert_int_equal(splitter.capacity, LINE_SPLITTER_KEPT);
  }
  line_splitter_release(&splitter);
}
