#include "base/json_string.h"
#include "base/utf8.h"
#include "tests/test.h"
#include "wire/json.h"

#define TEXT_MAX 64

/* Writes what a reader gets back, with JSON_TREE_NUL for a NUL, byte by byte. */
static size_t slow_replace(char *out, const char *text, size_t length) {
  size_t n = 0;
  for (size_t at = 0; at < length;) {
    size_t sequence = utf8_sequence(text + at, length - at);
    if (sequence == 0) {
      memcpy(out + n, UTF8_REPLACEMENT, 3);
      n += 3;
      at += utf8_broken(text + at, length - at);
    } else if (text[at] == '\0') {
      memcpy(out + n, JSON_TREE_NUL, 2);
      n += 2;
      at++;
    } else {
      memcpy(out + n, text + at, sequence);
      n += sequence;
      at += sequence;
    }
  }
  out[n] = '\0';
  return n;
}

/* Encodes the text, checks the length, and lets cJSON read it back. */
static void check(const char *text, size_t length) {
  char json[6 * TEXT_MAX + 2];
  char expected[3 * TEXT_MAX + 1];
  assert_true(length <= TEXT_MAX);
  size_t encoded = json_string_length(text, length);
  assert_true(encoded <= 6 * length);
  /* An exact buffer, for the sanitizer. */
  char *exact = malloc(encoded + 1);
  assert_ptr_equal(json_string_write(exact, text, length), exact + encoded);
  json[0] = '"';
  memcpy(json + 1, exact, encoded);
  json[1 + encoded] = '"';
  free(exact);

  struct error error;
  cJSON *value = json_tree_parse(json, encoded + 2, &error);
  if (value == NULL)
    fail_msg("%.*s: %s", (int)encoded + 2, json, error.text);
  slow_replace(expected, text, length);
  assert_string_equal(cJSON_GetStringValue(value), expected);
  cJSON_Delete(value);
}

TEST(every_byte_is_encoded_at_every_position) {
  for (size_t length = 1; length <= 26; length++) {
    for (size_t at = 0; at < length; at++) {
      for (unsigned byte = 0; byte < 256; byte++) {
        char text[TEXT_MAX];
        memset(text, 'x', sizeof text);
        text[at] = (char)byte;
        check(text, length);
      }
    }
  }
}

TEST(every_pair_of_bytes_is_encoded) {
  static const size_t places[] = {0, 6, 7};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    for (unsigned pair = 0; pair < 0x10000; pair++) {
      char text[TEXT_MAX];
      memset(text, 'x', sizeof text);
      text[places[i]] = (char)(pair >> 8);
      text[places[i] + 1] = (char)(pair & 0xFF);
      check(text, places[i] + 2);
      check(text, places[i] + 11);
    }
  }
}

static void assert_encodes(const char *text, size_t length, const char *json) {
  char out[256];
  assert_int_equal(json_string_length(text, length), strlen(json));
  *json_string_write(out, text, length) = '\0';
  assert_string_equal(out, json);
}

TEST(the_shortest_escapes_are_used) {
  assert_encodes("", 0, "");
  assert_encodes(NULL, 0, "");
  assert_encodes("\"\\/\b\t\n\f\r", 8, "\\\"\\\\/\\b\\t\\n\\f\\r");
  assert_encodes("\0\x01\x1B[31m\x1F\x7F", 9, "\\u0000\\u0001\\u001b[31m\\u001f\x7F");
  assert_encodes("Gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80", 11, "Gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80");
}

/* The examples of the Unicode standard, chapter 3, "U+FFFD Substitution of Maximal Subparts". */
TEST(each_maximal_subpart_becomes_one_replacement_character) {
#define R UTF8_REPLACEMENT
  assert_encodes("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", 9, R R R R R R R R "A");
  assert_encodes("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", 9, R R R R R R R R "A");
  assert_encodes("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", 9, R R R R R "A" R R "B");
  assert_encodes("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", 9, R R R R "A");
  assert_encodes("caf\xC3", 4, "caf" R);
#undef R
}
