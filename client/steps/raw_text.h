#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/*
 * Shows the raw output of one stream as text, as an agent makes lines of output: a carriage return
 * ends a line, and a line feed after it does not end another one. The beginning of a character
 * waits for the rest of it, which may be in the next event. A stream is {0} at first.
 */
struct raw_text {
  char rest[4];
  size_t rest_length;
  bool after_return;
};

/* Appends the text of these bytes. */
void raw_text_add(struct raw_text *self, const char *bytes, size_t length, struct buffer *out);

/* Appends what still waits. */
void raw_text_end(struct raw_text *self, struct buffer *out);
