#ifndef BASE_ERROR_H
#define BASE_ERROR_H

/*
 * An error as data: a text in a fixed buffer that the caller owns, so that reporting a failure
 * cannot itself fail. A function that takes a `struct error *` returns 0, or -1 after it wrote the
 * text; on success it leaves the text as it was. The text is one line without a line ending, for a
 * person: what failed, on what, and why.
 */
struct error {
  char text[256];
};

/* Writes the text. What does not fit is left out of its middle, where "…" then stands: what failed
   is at the beginning, on what at the end. Returns -1, for the caller to return. */
int error_set(struct error *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
