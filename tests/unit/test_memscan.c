#include "agent/files/grep/memscan.h"
#include "tests/test.h"

enum { ROOM = 100 };

/* So many bytes, and behind them what must make no difference. */
static void fill(char *text, size_t length) {
  memset(text, 'x', length);
  memset(text + length, '\r', ROOM + MEMSCAN_SLACK - length);
  text[length] = '\0';
  text[length + 1] = '\x80';
}

TEST(traits_are_those_of_the_bytes) {
  static const struct {
    char byte;
    unsigned trait;
  } rows[] = {{'\0', BYTE_NUL}, {'\r', BYTE_RETURN}, {'\x80', BYTE_HIGH}, {'\xFF', BYTE_HIGH},
              {'\x7F', 0},      {'\n', 0},           {'\x01', 0}};
  char text[ROOM + MEMSCAN_SLACK];
  for (size_t length = 0; length <= ROOM - 2; length++) {
    fill(text, length);
    assert_int_equal(memscan_traits(text, length), 0);
    for (size_t at = 0; at < length; at++)
      for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text[at] = rows[i].byte;
        assert_int_equal(memscan_traits(text, length), rows[i].trait);
        text[at] = 'x';
      }
  }
  assert_int_equal(memscan_traits("\r\xFF\0", 3), BYTE_NUL | BYTE_RETURN | BYTE_HIGH);
}

TEST(the_first_byte_is_found) {
  char text[ROOM + MEMSCAN_SLACK];
  for (size_t length = 0; length <= ROOM - 2; length++) {
    fill(text, length);
    text[length] = '\n';
    assert_int_equal(memscan_first(text, length, '\n'), length);
    for (size_t at = length; at-- > 0;) {
      text[at] = '\n';
      assert_int_equal(memscan_first(text, length, '\n'), at);
    }
  }
}

TEST(all_bytes_are_counted) {
  static char text[20000 + MEMSCAN_SLACK];
  memset(text, '\n', sizeof text);
  for (size_t length = 0; length < 20000; length += length < 100 ? 1 : 997) {
    assert_int_equal(memscan_count(text, length, '\n'), length);
    assert_int_equal(memscan_count(text, length, 'x'), 0);
  }
}

static struct byte_literal literal(const char *text, unsigned char fold) {
  struct byte_literal made = {.length = strlen(text)};
  memcpy(made.bytes, text, made.length);
  memset(made.folds, fold, made.length);
  byte_literal_choose(&made);
  assert_true(made.first != made.second);
  assert_true(made.first < made.length && made.second < made.length);
  return made;
}

TEST(a_literal_is_found_wherever_it_is) {
  static const char *const words[] = {
      "ab", "aa", "Exception", "int", "{{}}", "\xC3\xA9", "a literal as long as they can be"};
  char text[ROOM + MEMSCAN_SLACK];
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    struct byte_literal one = literal(words[i], 0);
    for (size_t length = 0; length <= ROOM - 2; length++) {
      fill(text, length);
      assert_int_equal(memscan_find(text, length, 0, &one, 1), length);
      if (length < one.length)
        continue;
      for (size_t at = 0; at <= length - one.length; at++) {
        fill(text, length);
        memcpy(text + at, words[i], one.length);
        assert_int_equal(memscan_find(text, length, 0, &one, 1), at);
        assert_int_equal(memscan_find(text, length, at, &one, 1), at);
        assert_int_equal(memscan_find(text, length, at + 1, &one, 1), length);
        /* One that goes on behind the end is none. */
        assert_int_equal(memscan_find(text, at + one.length - 1, 0, &one, 1), at + one.length - 1);
      }
    }
  }
}

TEST(of_several_literals_the_first_is_found) {
  struct byte_literal many[MEMSCAN_LITERALS_MAX];
  for (size_t i = 0; i < MEMSCAN_LITERALS_MAX; i++)
    many[i] = literal((const char[]){(char)('a' + i), (char)('A' + i), '\0'}, 0);
  char text[ROOM + MEMSCAN_SLACK];
  fill(text, 90);
  memcpy(text + 70, "pP", 2);
  assert_int_equal(memscan_find(text, 90, 0, many, MEMSCAN_LITERALS_MAX), 70);
  memcpy(text + 33, "cC", 2);
  memcpy(text + 30, "cA", 2);
  assert_int_equal(memscan_find(text, 90, 0, many, MEMSCAN_LITERALS_MAX), 33);
  assert_int_equal(memscan_find(text, 90, 34, many, MEMSCAN_LITERALS_MAX), 70);
}

TEST(letters_may_be_of_either_case) {
  struct byte_literal one = literal("word", 0x20);
  char text[ROOM + MEMSCAN_SLACK];
  fill(text, 90);
  memcpy(text + 40, "wOrD", 4);
  memcpy(text + 20, "w/rd", 4); /* an "o" but for one bit */
  assert_int_equal(memscan_find(text, 90, 0, &one, 1), 40);
}
