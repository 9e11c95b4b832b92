#ifndef WIRE_TEXT_H
#define WIRE_TEXT_H

#include <stddef.h>

/*
 * Bytes that grow. All zeros is an empty one; `bytes` has no NUL behind it and is NULL while
 * nothing was added. Aborts when out of memory.
 */
struct text {
  char *bytes;
  size_t length;
  size_t capacity;
};

/* Leaves it empty. */
void text_release(struct text *self);

void text_add(struct text *self, const char *bytes, size_t length);
void text_add_string(struct text *self, const char *string);
void text_add_number(struct text *self, unsigned long long number);

/* The bytes as a JSON string, quotes included: see json_string.h. */
void text_add_json(struct text *self, const char *bytes, size_t length);

/* Room for so many bytes, at least one, behind the end; who fills it adds to `length`. */
char *text_space(struct text *self, size_t size);

#endif
