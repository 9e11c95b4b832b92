#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/decimal.h"
#include "base/json_string.h"
#include "base/memory.h"

#define FIRST_CAPACITY 256

void buffer_release(struct buffer *self) {
  free(self->bytes);
  *self = (struct buffer){0};
}

char *buffer_space(struct buffer *self, size_t size) {
  if (size > self->capacity - self->length) {
    size_t capacity = self->capacity > 0 ? self->capacity * 2 : FIRST_CAPACITY;
    self->capacity = capacity - self->length < size ? self->length + size : capacity;
    self->bytes = memory_resize(self->bytes, self->capacity);
  }
  return self->bytes + self->length;
}

void buffer_add(struct buffer *self, const char *bytes, size_t length) {
  if (length == 0)
    return;
  memcpy(buffer_space(self, length), bytes, length);
  self->length += length;
}

void buffer_add_string(struct buffer *self, const char *string) {
  buffer_add(self, string, strlen(string));
}

void buffer_add_number(struct buffer *self, unsigned long long number) {
  char *out = buffer_space(self, DECIMAL_LENGTH_MAX);
  self->length += (size_t)(decimal_write(out, number) - out);
}

void buffer_add_format(struct buffer *self, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  CHECK(length >= 0);
  (void)vsnprintf(buffer_space(self, (size_t)length + 1), (size_t)length + 1, format, again);
  self->length += (size_t)length;
  va_end(again);
  va_end(arguments);
}

void buffer_add_json(struct buffer *self, const char *bytes, size_t length) {
  size_t encoded = json_string_length(bytes, length);
  char *start = buffer_space(self, encoded + 2);
  char *at = start;
  *at++ = '"';
  at = json_string_write(at, bytes, length);
  *at++ = '"';
  CHECK(at == start + encoded + 2);
  self->length += encoded + 2;
}

void buffer_add_base64(struct buffer *self, const char *bytes, size_t length) {
  if (length == 0)
    return;
  size_t encoded = base64_length(length);
  (void)base64_encode(buffer_space(self, encoded), bytes, length);
  self->length += encoded;
}
