#pragma once

#include <stddef.h>

/* A growing array of bytes. A buffer that is all zeros is empty. `bytes` is not NUL-terminated, and
   is NULL until something is added. Running out of memory ends the program (memory.h). */
struct buffer {
  char *bytes;
  size_t length, capacity;
};

void buffer_release(struct buffer *self); /* it is empty afterwards */

void buffer_add(struct buffer *self, const char *bytes, size_t length);
void buffer_add_string(struct buffer *self, const char *string);
void buffer_add_number(struct buffer *self, unsigned long long number);
void buffer_add_format(struct buffer *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void buffer_add_json(struct buffer *self, const char *bytes, size_t length); /* with quotes */
void buffer_add_base64(struct buffer *self, const char *bytes, size_t length);

/* Reserves `size` bytes, at least one, after the end and returns their address. The caller fills
   them and adds to `length`. */
char *buffer_space(struct buffer *self, size_t size);
