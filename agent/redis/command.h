#ifndef AGENT_REDIS_COMMAND_H
#define AGENT_REDIS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Commands as they are encoded for the server: an array of bulk strings. Pure.
 *
 *   size_t length = command_length(words, n);
 *   end = command_write(out, words, n);
 *   while (command_read(&at, end, words, 4)) …
 */
struct command_word {
  const char *text;
  size_t length;
};

/* A literal or another NUL-terminated text. */
struct command_word command_word(const char *text);

size_t command_length(const struct command_word *words, size_t count);
char *command_write(char *out, const struct command_word *words, size_t count);

/* The same from texts, in memory of its own with a NUL behind it, to be freed. */
char *command_new(const char *const *texts, size_t count);

/*
 * Takes one command apart, which must be one that was written here: up to `most` of its words;
 * those that it does not have are empty. Moves *at behind it; false when *at is the end.
 */
bool command_read(const char **at, const char *end, struct command_word *words, size_t most);

bool command_word_is(const struct command_word *word, const char *text, size_t length);

#endif
