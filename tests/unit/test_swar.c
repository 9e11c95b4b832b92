#include "base/swar.h"
#include "tests/test.h"

/* Index of the first byte that is `wanted` or below `limit`, or SWAR_SIZE. */
static size_t slow_first(const char *text, unsigned char wanted, unsigned char limit) {
  size_t i = 0;
  while (i < SWAR_SIZE && (unsigned char)text[i] != wanted && (unsigned char)text[i] >= limit)
    i++;
  return i;
}

static size_t first(uint64_t hits) {
  return hits == 0 ? SWAR_SIZE : swar_first(hits);
}

/* Borrows run from byte to byte, so neighbours matter: every pair, at every place. */
TEST(every_pair_of_bytes_at_every_place) {
  for (size_t at = 0; at + 1 < SWAR_SIZE; at++) {
    for (unsigned pair = 0; pair < 0x10000; pair++) {
      char text[SWAR_SIZE];
      memset(text, 'z', sizeof text);
      text[at] = (char)(pair >> 8);
      text[at + 1] = (char)(pair & 0xFF);
      uint64_t word = swar_load(text);
      assert_int_equal(first(swar_equal(word, '\n')), slow_first(text, '\n', 0));
      assert_int_equal(first(swar_equal(word, 0)), slow_first(text, 0, 0));
      assert_int_equal(first(swar_equal(word, 0xFF)), slow_first(text, 0xFF, 0));
      assert_int_equal(first(swar_below(word, 0x20)), slow_first(text, 0, 0x20));
      assert_int_equal(first(swar_equal(word, '\\') | swar_below(word, 0x20)),
                       slow_first(text, '\\', 0x20));
    }
  }
}

TEST(high_bytes_are_those_that_are_not_ascii) {
  for (unsigned byte = 0; byte < 256; byte++) {
    char text[SWAR_SIZE + 1] = "abcdefgh";
    text[5] = (char)byte;
    assert_int_equal(first(swar_high(swar_load(text))), byte >= 0x80 ? 5 : SWAR_SIZE);
  }
}

TEST(a_word_may_lie_anywhere) {
  const char text[] = "0123456789abcdef\n";
  for (size_t at = 1; at <= 9; at++)
    assert_int_equal(first(swar_equal(swar_load(text + at), '\n')), at == 9 ? 7 : SWAR_SIZE);
}

TEST(a_copy_is_the_text_and_nothing_else) {
  enum { MOST = SWAR_COPY_MAX + 40, GUARD = 2 * SWAR_SIZE };
  char text[MOST + SWAR_SIZE], out[MOST + 2 * GUARD], expected[sizeof out];
  for (size_t i = 0; i < sizeof text; i++)
    text[i] = (char)(i * 7 + i / 251);
  for (size_t shift = 0; shift < SWAR_SIZE; shift++)
    for (size_t length = 0; length <= MOST; length++) {
      memset(out, '#', sizeof out);
      memset(expected, '#', sizeof expected);
      memcpy(expected + GUARD, text + shift, length);
      assert_ptr_equal(swar_copy(out + GUARD, text + shift, length), out + GUARD + length);
      assert_memory_equal(out, expected, sizeof out);
    }
}
