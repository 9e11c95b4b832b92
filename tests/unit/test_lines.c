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

TEST(each_line_ending_ends_a_line) {
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
      /* The other line separators of Unicode end no line. */
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
