#include "agent/engine/capture.h"
#include "tests/test.h"

static struct captured_stream whole(const char *text) {
  return (struct captured_stream){.bytes = text, .length = strlen(text)};
}

/* Expects `head|bytes left out|tail`, or the text if the stream is whole. */
static void expect_parts(struct captured_stream stream, size_t side, const char *expected) {
  char shown[200];
  stream = captured_stream_ends(stream, side);
  if (stream.truncated)
    (void)snprintf(shown, sizeof shown, "%.*s|%llu|%.*s", (int)stream.length, stream.bytes,
                   (unsigned long long)captured_stream_left_out(&stream), (int)stream.tail_length,
                   stream.tail);
  else
    (void)snprintf(shown, sizeof shown, "%.*s", (int)stream.length, stream.bytes);
  assert_string_equal(shown, expected);
}

TEST(both_ends_are_whole_lines_if_possible) {
  static const struct {
    const char *text, *parts;
  } rows[] = {
      {"", ""},
      {"abcdefgh", "abcdefgh"},
      {"abcdefghi", "abcd|1|fghi"},
      {"ab\ncd\nef\n", "ab\n|3|ef\n"},
      {"abc\ndefg\nhi", "abc\n|5|hi"},
      {"abc\ndef\nghi\n", "abc\n|4|ghi\n"}, /* the end begins with a line */
      {"abcd\nefgh\nij", "abcd|6|ij"},
      {"\n\n\n\n\n\n\n\n\n", "\n\n\n\n|1|\n\n\n\n"},
      {"ab\r\ncd\r\nef\r\n", "ab\r\n|4|ef\r\n"},
      {"abc\r\ndef\r\ngh\r\n", "abc\r|6|gh\r\n"},
      {"a\rbc\rdef\rgh\r", "a\r|7|gh\r"},
      {"abcdefghijk\n", "abcd|4|ijk\n"}, /* no line begins behind the last end */
      {"abc\xC3\xA9 \xC3\xA9xyz", "abc|5|xyz"},
      {"\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC", "\xE2\x82\xAC|3|\xE2\x82\xAC"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect_parts(whole(rows[i].text), 4, rows[i].parts);
}

/* A stream of 100 bytes, of which 6 of each end are kept. */
TEST(a_truncated_stream_is_cut_further) {
  struct captured_stream stream = {.bytes = "ab\ncde",
                                   .length = 6,
                                   .truncated = true,
                                   .tail = "v\nwxyz",
                                   .tail_length = 6,
                                   .total = 100};
  expect_parts(stream, 6, "ab\ncde|88|v\nwxyz");
  expect_parts(stream, 5, "ab\n|93|wxyz");
  expect_parts(stream, 3, "ab\n|94|xyz");
}
