#include "agent/frontends/redis/connection/command.h"

#include <stdio.h>
#include <string.h>

#include "base/decimal.h"

struct command_word command_word(const char *text) {
  return (struct command_word){.text = text, .length = strlen(text)};
}

bool command_word_is(const struct command_word *self, const char *text) {
  return self->length == strlen(text) && memcmp(self->text, text, self->length) == 0;
}

char *command_close(char *out) {
  *out++ = '\r';
  *out++ = '\n';
  return out;
}

/* Writes a type byte, a number and a line end. */
static char *write_number(char *out, char type, size_t number) {
  *out = type;
  return command_close(decimal_write(out + 1, number));
}

/* Writes a word and a line end. */
static char *write_word(char *out, const char *text, size_t length) {
  out = command_last(out, length);
  memcpy(out, text, length);
  return command_close(out + length);
}

size_t command_length(const struct command_word *words, size_t count) {
  size_t length = 3 + decimal_length(count);
  for (size_t i = 0; i < count; i++)
    length += command_last_length(words[i].length);
  return length;
}

char *command_write(char *out, const struct command_word *words, size_t count) {
  out = write_number(out, '*', count);
  for (size_t i = 0; i < count; i++)
    out = write_word(out, words[i].text, words[i].length);
  return out;
}

char *command_last(char *out, size_t last) {
  return write_number(out, '$', last);
}

size_t command_last_length(size_t last) {
  return 3 + decimal_length(last) + last + 2;
}

/* Appends the texts of a command that has this many more words. */
static void add(struct buffer *out, const char *const *texts, size_t more) {
  size_t count = 0, length = 3 + DECIMAL_LENGTH_MAX;
  for (; texts[count] != NULL; count++)
    length += command_last_length(strlen(texts[count]));
  char *begin = buffer_space(out, length), *end = write_number(begin, '*', count + more);
  for (size_t i = 0; i < count; i++)
    end = write_word(end, texts[i], strlen(texts[i]));
  out->length += (size_t)(end - begin);
}

void command_add(struct buffer *out, const char *const *texts) {
  add(out, texts, 0);
}

void command_begin(struct buffer *out, const char *const *texts) {
  add(out, texts, 1);
}

char *command_new(const char *const *texts) {
  struct buffer command = {0};
  command_add(&command, texts);
  buffer_add(&command, "", 1);
  return command.bytes;
}

char *command_list_new(const char *const (*commands)[COMMAND_LIST_WORDS], size_t count) {
  struct buffer list = {0};
  for (size_t i = 0; i < count; i++)
    command_add(&list, commands[i]);
  buffer_add(&list, "", 1);
  return list.bytes;
}

/* Reads the number after a type byte, and moves past its line. */
static size_t read_number(const char **at) {
  size_t number = 0;
  for (++*at; **at != '\r'; ++*at)
    number = number * 10 + (size_t)(**at - '0');
  *at += 2;
  return number;
}

bool command_read(const char **at, const char *end, struct command_word *words, size_t max) {
  if (*at >= end)
    return false;
  memset(words, 0, max * sizeof *words);
  size_t count = read_number(at);
  for (size_t i = 0; i < count; i++) {
    struct command_word word;
    word.length = read_number(at);
    word.text = *at;
    *at += word.length + 2;
    if (i < max)
      words[i] = word;
  }
  return true;
}

struct command_name command_name(const struct command_word *command,
                                 const struct command_word *key) {
  struct command_name name;
  const size_t length = key->length < 120 ? key->length : 120;
  (void)snprintf(name.text, sizeof name.text, "%.*s%s%.*s", (int)command->length, command->text,
                 length > 0 ? " " : "", (int)length, length > 0 ? key->text : "");
  return name;
}
