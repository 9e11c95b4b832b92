#include "agent/frontends/redis/connection/command.h"
#include "tests/test.h"

static bool is_word(const struct command_word *word, const char *text, size_t length) {
  return word->length == length && memcmp(word->text, text, length) == 0;
}

TEST(a_command_is_an_array_of_bulk_strings) {
  const char *texts[] = {"LPUSH", "a key", ""};
  char *command = command_new(texts, 3);
  assert_string_equal(command, "*3\r\n$5\r\nLPUSH\r\n$5\r\na key\r\n$0\r\n\r\n");
  free(command);
}

TEST(words_may_be_any_bytes) {
  const struct command_word words[] = {command_word("SET"),
                                       {.text = "\r\n$1\r\n\0\xff", .length = 8}};
  static const char expected[] = "*2\r\n$3\r\nSET\r\n$8\r\n\r\n$1\r\n\0\xff\r\n";
  char out[64];
  assert_int_equal(command_length(words, 2), sizeof expected - 1);
  char *end = command_write(out, words, 2);
  assert_int_equal(end - out, sizeof expected - 1);
  assert_memory_equal(out, expected, sizeof expected - 1);

  const char *at = out;
  struct command_word read[2];
  assert_true(command_read(&at, end, read, 2));
  assert_true(is_word(&read[0], "SET", 3));
  assert_true(is_word(&read[1], words[1].text, 8));
  assert_false(command_read(&at, end, read, 2));
}

/* Lengths of 1 to 6 digits, on both sides of each power of ten. */
TEST(lengths_of_each_size_are_written) {
  static const size_t lengths[] = {0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 9999, 10000, 100000};
  static char text[100000];
  memset(text, 'x', sizeof text);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    struct command_word words[12];
    for (size_t k = 0; k < 12; k++) /* the count has two digits too */
      words[k] = (struct command_word){.text = text, .length = lengths[i]};
    size_t length = command_length(words, 12);
    char *out = malloc(length); /* the sanitizer finds one byte more or less */
    assert_non_null(out);
    const char *end = command_write(out, words, 12);
    assert_ptr_equal(end, out + length);
    const char *at = out;
    struct command_word read[12];
    assert_true(command_read(&at, end, read, 12));
    assert_ptr_equal(at, end);
    for (size_t k = 0; k < 12; k++)
      assert_int_equal(read[k].length, lengths[i]);
    free(out);
  }
}

TEST(commands_are_decoded_one_by_one) {
  const char *one[] = {"XADD", "events", "*", "data", "{}"};
  const char *two[] = {"DEL", "started"};
  char *first = command_new(one, 5), *second = command_new(two, 2);
  char both[128];
  strcat(strcpy(both, first), second);
  free(first);
  free(second);

  const char *at = both, *end = both + strlen(both);
  struct command_word words[3];
  assert_true(command_read(&at, end, words, 3)); /* the first three words of five */
  assert_true(is_word(&words[0], "XADD", 4));
  assert_true(is_word(&words[2], "*", 1));
  assert_true(command_read(&at, end, words, 3));
  assert_true(is_word(&words[0], "DEL", 3));
  assert_true(is_word(&words[1], "started", 7));
  assert_int_equal(words[2].length, 0); /* a missing word */
  assert_ptr_equal(at, end);
  assert_false(command_read(&at, end, words, 3));
}

TEST(a_list_is_one_command_after_another) {
  const char *const commands[][COMMAND_LIST_WORDS] = {{"PING"}, {"SET", "a", ""}};
  char *list = command_list_new(commands, 2);
  assert_string_equal(list, "*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n");
  free(list);
}

/* The bytes are those of the whole command, even if the count gets a second digit. */
TEST(a_head_is_a_command_whose_last_word_comes_later) {
  static const size_t lengths[] = {0, 9, 10, 12345};
  static char last[12345];
  memset(last, 'x', sizeof last);
  const char *texts[] = {"XADD", "a key", "", "3", "4", "5", "6", "7", "8"};
  for (size_t count = 1; count <= sizeof texts / sizeof *texts; count++) {
    struct command_head head;
    command_head_init(&head, texts, count);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
      struct command_word words[10];
      for (size_t k = 0; k < count; k++)
        words[k] = command_word(texts[k]);
      words[count] = (struct command_word){.text = last, .length = lengths[i]};
      size_t length = command_length(words, count + 1);
      char *expected = malloc(length), *out = malloc(length);
      assert_true(expected != NULL && out != NULL);
      command_write(expected, words, count + 1);
      assert_int_equal(command_head_length(&head, lengths[i]), length);
      char *value = command_head_write(&head, out, lengths[i]);
      memcpy(value, last, lengths[i]);
      assert_ptr_equal(command_close(value + lengths[i]), out + length);
      assert_memory_equal(out, expected, length);
      free(expected);
      free(out);
    }
    command_head_release(&head);
  }
}
