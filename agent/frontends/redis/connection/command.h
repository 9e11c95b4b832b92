#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/* Encodes commands for Redis as arrays of bulk strings, and decodes commands that were encoded
   here. The delivery decodes a batch to name the command that Redis rejected, and the client uses
   this module, too. Pure. */

/* The texts of a command. They end with the first NULL, so the last ones may be left out. */
#define COMMAND(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Appends an encoded command. */
void command_add(struct buffer *out, const char *const *texts);

/* Encodes a command, or several, into new memory, with a NUL after it, which the caller frees. */
#define COMMAND_LIST_WORDS 9
char *command_new(const char *const *texts);
char *command_list_new(const char *const (*commands)[COMMAND_LIST_WORDS], size_t count);

/* Appends a command without its last word, for many commands that differ only in that word. It is
   followed by command_last, exactly `last` bytes that the caller writes, and command_close. Those
   two return the end of the bytes that were written. */
void command_begin(struct buffer *out, const char *const *texts);
char *command_last(char *out, size_t last);
char *command_close(char *out);

/* Returns how many bytes follow command_begin for a last word of `last` bytes. */
size_t command_last_length(size_t last);

/* A word that may contain any bytes. */
struct command_word {
  const char *text;
  size_t length;
};

/* Makes a word of a NUL-terminated text, which is borrowed. */
struct command_word command_word(const char *text);

bool command_word_is(const struct command_word *self, const char *text);

/* Return the encoded length in bytes, and the end of the bytes that were written. */
size_t command_length(const struct command_word *words, size_t count);
char *command_write(char *out, const struct command_word *words, size_t count);

/* Names a command and its key for people, such as "GET sandbox:j:started". */
struct command_name {
  char text[160];
};
struct command_name command_name(const struct command_word *command,
                                 const struct command_word *key);

/* Decodes one command that was encoded here, and moves *at past it. Fills in `max` words; missing
   ones are empty. Returns false if *at is the end. */
bool command_read(const char **at, const char *end, struct command_word *words, size_t max);
