#include "agent/frontends/redis/connection/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/decimal.h"
#include "base/memory.h"
#include "base/swar.h"

struct command_word command_word(const char *text) {
  return (struct command_word){.text = text, .length = strlen(text)};
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

size_t command_length(const struct command_word *words, size_t count) {
  size_t length = 3 + decimal_length(count);
  for (size_t i = 0; i < count; i++)
    length += 3 + decimal_length(words[i].length) + words[i].length + 2;
  return length;
}

char *command_write(char *out, const struct command_word *words, size_t count) {
  out = write_number(out, '*', count);
  for (size_t i = 0; i < count; i++) {
    out = write_number(out, '$', words[i].length);
    memcpy(out, words[i].text, words[i].length);
    out = command_close(out + words[i].length);
  }
  return out;
}

static size_t read_words(const char *const *texts, struct command_word words[COMMAND_LIST_WORDS]) {
  size_t count = 0;
  for (; texts[count] != NULL; count++)
    words[count] = command_word(texts[count]);
  return count;
}

void command_add(struct buffer *out, const char *const *texts) {
  struct command_word words[COMMAND_LIST_WORDS];
  size_t count = read_words(texts, words);
  size_t length = command_length(words, count);
  (void)command_write(buffer_space(out, length), words, count);
  out->length += length;
}

char *command_new(const char *const *texts, size_t count) {
  struct command_word *words = memory_allocate(count * sizeof *words);
  for (size_t i = 0; i < count; i++)
    words[i] = command_word(texts[i]);
  char *command = memory_allocate(command_length(words, count) + 1);
  *command_write(command, words, count) = '\0';
  free(words);
  return command;
}

char *command_list_new(const char *const (*commands)[COMMAND_LIST_WORDS], size_t count) {
  struct command_word words[COMMAND_LIST_WORDS];
  size_t length = 1;
  for (size_t i = 0; i < count; i++)
    length += command_length(words, read_words(commands[i], words));
  char *list = memory_allocate(length), *out = list;
  for (size_t i = 0; i < count; i++)
    out = command_write(out, words, read_words(commands[i], words));
  *out = '\0';
  return list;
}

void command_head_init(struct command_head *self, const char *const *texts, size_t count) {
  const char *words[COMMAND_LIST_WORDS + 1];
  CHECK(count <= COMMAND_LIST_WORDS);
  memcpy(words, texts, count * sizeof *words);
  words[count] = ""; /* the last word */
  self->text = command_new(words, count + 1);
  self->length = strlen(self->text) - strlen("$0\r\n\r\n");
}

void command_head_release(struct command_head *self) {
  free(self->text);
  *self = (struct command_head){0};
}

size_t command_head_length(const struct command_head *self, size_t last) {
  return self->length + 3 + decimal_length(last) + last + 2;
}

char *command_head_write(const struct command_head *self, char *out, size_t last) {
  (void)swar_copy(out, self->text, self->length);
  return write_number(out + self->length, '$', last);
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
