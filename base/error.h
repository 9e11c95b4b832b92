#ifndef BASE_ERROR_H
#define BASE_ERROR_H

/* An error as data: a text in a fixed buffer that the caller owns, so that reporting a failure
   cannot itself fail. A function that takes a `struct error *` returns 0, or -1 after it wrote it;
   on success it leaves it as it was. The text is one line without a line ending, for a person: what
   failed, on what, and why. What a program decides by is beside it. */
struct error {
  char text[256];
  int code; /* the errno, where the system has refused something, or a code of who has set it; else 0 */
  unsigned short why; /* where in the text the reason begins, when its subject is left out */
};

/* Writes the text; the code and `why` are 0. One that is too long has "…" in place of its middle:
   the beginning says what failed, and the end on what. Returns -1, for the caller to return. */
int error_set(struct error *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with "<subject>: " in front of it, behind which `why` begins. */
int error_set_about(struct error *self, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The text without its subject. */
const char *error_why(const struct error *self);

/* Sets "<what>: <reason>". If the reason is that no descriptor is free (EMFILE), it names the limit
   and what to do. The code is the errno. Returns -1. */
int error_set_reason(struct error *self, const char *what, int reason);

#endif
