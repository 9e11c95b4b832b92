#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stddef.h>

/* An array of bytes that grows. All zeros is an empty one; `bytes` has no NUL after it and is NULL
   while nothing was added. Aborts when out of memory. */
struct buffer {
  char *bytes;
  size_t length, capacity;
};

/* Frees the bytes; the buffer is empty afterwards. */
void buffer_release(struct buffer *self);

void buffer_add(struct buffer *self, const char *bytes, size_t length);
void buffer_add_string(struct buffer *self, const char *string);
void buffer_add_number(struct buffer *self, unsigned long long number);
void buffer_add_format(struct buffer *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds the bytes as a JSON string, quotes included: see json_string.h. */
void buffer_add_json(struct buffer *self, const char *bytes, size_t length);

/* Adds the bytes as base64: see base64.h. */
void buffer_add_base64(struct buffer *self, const char *bytes, size_t length);

/* Makes room for `size` bytes, at least one, after the end, and returns where it begins. The caller
   fills it and adds to `length`. */
char *buffer_space(struct buffer *self, size_t size);

#endif
