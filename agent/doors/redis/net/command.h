#ifndef AGENT_DOORS_REDIS_NET_COMMAND_H
#define AGENT_DOORS_REDIS_NET_COMMAND_H

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

/* Several, one behind the other; each ends with a NULL. */
#define COMMAND_LIST_WORDS 9
char *command_list_new(const char *const (*commands)[COMMAND_LIST_WORDS], size_t count);

/*
 * A command up to its last word, which is written in place and whose length is all that is known
 * before:
 *
 *   out = command_head_write(&head, out, n);  … exactly n bytes …  out = command_close(out);
 */
struct command_head {
  char *text;
  size_t length;
};

/* `texts` are the words but the last. */
void command_head_init(struct command_head *self, const char *const *texts, size_t count);
void command_head_release(struct command_head *self);

/* The whole command's length, with a last word of so many bytes. */
size_t command_head_length(const struct command_head *self, size_t last);
char *command_head_write(const struct command_head *self, char *out, size_t last);
char *command_close(char *out);

/*
 * Takes one command apart, which must be one that was written here: up to `most` of its words;
 * those that it does not have are empty. Moves *at behind it; false when *at is the end.
 */
bool command_read(const char **at, const char *end, struct command_word *words, size_t most);

bool command_word_is(const struct command_word *word, const char *text, size_t length);

#endif
