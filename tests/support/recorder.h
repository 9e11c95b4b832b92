#pragma once

#include <stddef.h>

#include "tests/support/loop.h"

/*
 * Records what a module called back, in order, one word a call:
 *
 *   static void on_claimed(void *owner) { recorder_add(&self->recorder, "claimed"); }
 *   …
 *   recorder_expect(&loop, &recorder, "claimed delivered forgotten delivered");
 *
 * Zeroed memory is an empty recorder; it owns nothing.
 */
struct recorder {
  char text[4096]; /* the words, separated by spaces */
  size_t length;
};

/* Appends a word without spaces. A full recorder fails the test. */
void recorder_add(struct recorder *self, const char *word);

/* All words; valid until the next call. */
const char *recorder_text(const struct recorder *self);

void recorder_reset(struct recorder *self);

/* Runs the loop until the text has this length, and then until nothing is left to do at once; fails
   unless it is this text. */
void recorder_expect(struct loop *loop, const struct recorder *self, const char *text);
