#include "agent/doors/redis/net/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
  char *list = NULL, *out = NULL;
  size_t length = 0;
  for (int writing = 0; writing < 2; writing++) {
    for (size_t i = 0; i < count; i++) {
      struct command_word words[COMMAND_LIST_WORDS];
      size_t n = 0;
      for (; commands[i][n] != NULL; n++)
        words[n] = command_word(commands[i][n]);
      if (writing)
        out = command_write(out, words, n);
      else
        length += command_length(words, n);
    }
    if (!writing)
      out = list = memory_allocate(length + 1);
  }
  *out = '\0';
  return list;
}

void command_head_init(struct command_head *self, const char *const *texts, size_t count) {
  struct command_word *words = memory_allocate(count * sizeof *words);
  for (size_t i = 0; i < count; i++)
    words[i] = command_word(texts[i]);
  /* The array has one element more than `texts`, and so perhaps one digit more. */
  self->text = memory_allocate(command_length(words, count) + 1);
  char *body = command_write(self->text, words, count);
  size_t header = 3 + decimal_length(count);
  size_t length = (size_t)(body - self->text) - header;
  memmove(self->text + 3 + decimal_length(count + 1), self->text + header, length);
  self->length = (size_t)(write_number(self->text, '*', count + 1) - self->text) + length;
  free(words);
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

/* Reads the number after a type byte; moves past its line. */
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

bool command_word_is(const struct command_word *word, const char *text, size_t length) {
  return word->length == length && (length == 0 || memcmp(word->text, text, length) == 0);
}
