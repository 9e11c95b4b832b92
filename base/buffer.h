#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stddef.h>

/*
 * Bytes that grow. All zeros is an empty one; `bytes` has no NUL behind it and is NULL while
 * nothing was added. Aborts when out of memory.
 */
struct buffer {
  char *bytes;
  size_t length;
  size_t capacity;
};

/* Leaves it empty. */
void buffer_release(struct buffer *self);

void buffer_add(struct buffer *self, const char *bytes, size_t length);
void buffer_add_string(struct buffer *self, const char *string);
void buffer_add_number(struct buffer *self, unsigned long long number);

/* The bytes as a JSON string, quotes included: see json_string.h. */
void buffer_add_json(struct buffer *self, const char *bytes, size_t length);

/* Room for so many bytes, at least one, behind the end; who fills it adds to `length`. */
char *buffer_space(struct buffer *self, size_t size);

#endif
