#ifndef TESTS_SUPPORT_OCTOBER_OUTPUT_H
#define TESTS_SUPPORT_OCTOBER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * What the server of October makes of a command's standard output: from the lines of its events and
 * from outputContent, the head and the tail that a model reads. Lengths are in UTF-16 units; texts
 * are UTF-8.
 */
struct october_stream {
  char *text; /* every line with "\n" behind it; terminated */
  size_t length;
  size_t size;
  long long units; /* the server's Total */
};

void october_stream_append(struct october_stream *self, const char *line, size_t length);
void october_stream_release(struct october_stream *self);

/* Parts of a stream or of a body, which must outlive it. */
struct october_section {
  const char *head;
  size_t head_length; /* in bytes, as the next */
  const char *tail;   /* "" where the head holds all that is known */
  size_t tail_length;
  long long total;
  bool tail_not_captured; /* what was printed last is not known; total is the least */
};

/* Of standard output: `body` is outputContent, or NULL. */
struct october_section october_section_of(const char *body, const struct october_stream *stream);

/* Whether the last line of what is known, without its "\n", is this one. */
bool october_section_ends_with(const struct october_section *self, const char *line);

/* Units of well-formed UTF-8. */
long long october_units(const char *text, size_t length);

/* A body of fewer is whole; one of as many may be cut. */
enum { OCTOBER_BODY_UNITS = 1000000 };

#endif
