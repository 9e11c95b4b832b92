#pragma once

/* An error as data: a text in a fixed buffer that the caller owns, so that reporting a failure
   cannot itself fail. A function that takes a `struct error *` returns 0 and leaves the error
   alone, or sets it and returns -1. The text is one line for a person, without a line ending: what
   failed, on what, and why. */
struct error {
  char text[256];
  int code;           /* errno if the system refused something, or a code of the function; else 0 */
  unsigned short why; /* where the reason begins in the text, if the caller knows; else 0 */
};

/* Sets the text; `code` and `why` become 0. "…" replaces the middle of a text that is too long,
   because the beginning says what failed and the end on what. Returns -1, for the caller. */
int error_set(struct error *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the text from `why` on. */
const char *error_why(const struct error *self);

/* Sets "<what>: <reason>" for an errno, which also becomes the code. For EMFILE, the text names the
   limit and says what to do; for ETOOMANYREFS, what is full. Returns -1. */
int error_set_reason(struct error *self, const char *what, int reason);
