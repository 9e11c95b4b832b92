#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_COMMAND_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/* Encodes commands for Redis as arrays of bulk strings, and decodes commands encoded here. Pure. */
struct command_word {
  const char *text;
  size_t length;
};

/* Makes a word of a NUL-terminated text, which is borrowed. */
struct command_word command_word(const char *text);

/* Return the encoded length in bytes, and the end of the bytes that were written. */
size_t command_length(const struct command_word *words, size_t count);
char *command_write(char *out, const struct command_word *words, size_t count);

/* Appends an encoded command; its texts end with NULL. */
void command_add(struct buffer *out, const char *const *texts);

/* Encodes a command into new memory, with a NUL after it, which the caller frees. */
char *command_new(const char *const *texts, size_t count);

/* Encodes several commands, one after another; the texts of each end with a NULL. It allocates
   once, so no copy of a password is left behind. */
#define COMMAND_LIST_WORDS 9
char *command_list_new(const char *const (*commands)[COMMAND_LIST_WORDS], size_t count);

/* A command without its last word, encoded once for many commands that differ only in that word:
   between command_head_write and command_close the caller writes exactly `last` bytes. */
struct command_head {
  char *text;
  size_t length;
};

/* `texts` are all words except the last; at most COMMAND_LIST_WORDS. */
void command_head_init(struct command_head *self, const char *const *texts, size_t count);
void command_head_release(struct command_head *self);

/* Returns the length of the whole command, with a last word of `last` bytes. */
size_t command_head_length(const struct command_head *self, size_t last);
char *command_head_write(const struct command_head *self, char *out, size_t last);
char *command_close(char *out);

/* Decodes one command that was encoded here, and moves *at past it. Fills in `max` words; missing
   ones are empty. Returns false if *at is the end. */
bool command_read(const char **at, const char *end, struct command_word *words, size_t max);

#endif
