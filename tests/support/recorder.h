#ifndef TESTS_SUPPORT_RECORDER_H
#define TESTS_SUPPORT_RECORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/support/loop.h"

/*
 * Records what a module called back, in order, one word a call:
 *
 *   static void on_claimed(void *owner) { recorder_add(&self->recorder, "claimed"); }
 *   …
 *   assert_true(recorder_await(&loop, &recorder, "delivered", 2));
 *   assert_string_equal(recorder_text(&recorder), "claimed delivered forgotten delivered");
 *
 * Zeroed memory is an empty recorder; it owns nothing.
 */
struct recorder {
  char text[4096]; /* the words, a space between them */
  size_t length;
};

/* Appends a word, which holds no space. A recorder that is full fails the test. */
void recorder_add(struct recorder *self, const char *word);

/* How often this very word was added. */
size_t recorder_count(const struct recorder *self, const char *word);

/* All words; valid until the next call. */
const char *recorder_text(const struct recorder *self);

void recorder_reset(struct recorder *self);

/* Runs the loop until the word was added `count` times or more; false when it was not. */
bool recorder_await(struct loop *loop, const struct recorder *self, const char *word, size_t count);

/* Runs the loop until the text is as long as this one, and then until nothing is left to do at
   once; asserts that it is the same. */
void recorder_expect(struct loop *loop, const struct recorder *self, const char *text);

#endif
