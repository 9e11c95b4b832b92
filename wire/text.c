#include "wire/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/json_string.h"
#include "wire/memory.h"

#define FIRST_CAPACITY 256

void text_release(struct text *self) {
  free(self->bytes);
  *self = (struct text){0};
}

char *text_space(struct text *self, size_t size) {
  if (size > self->capacity - self->length) {
    size_t capacity = self->capacity > 0 ? self->capacity * 2 : FIRST_CAPACITY;
    self->capacity = capacity - self->length < size ? self->length + size : capacity;
    self->bytes = memory_resize(self->bytes, self->capacity);
  }
  return self->bytes + self->length;
}

void text_add(struct text *self, const char *bytes, size_t length) {
  if (length == 0)
    return;
  memcpy(text_space(self, length), bytes, length);
  self->length += length;
}

void text_add_string(struct text *self, const char *string) {
  text_add(self, string, strlen(string));
}

void text_add_number(struct text *self, unsigned long long number) {
  char digits[24];
  int length = snprintf(digits, sizeof digits, "%llu", number);
  text_add(self, digits, (size_t)length);
}

void text_add_json(struct text *self, const char *bytes, size_t length) {
  size_t encoded = json_string_length(bytes, length);
  char *at = text_space(self, encoded + 2);
  *at++ = '"';
  at = json_string_write(at, bytes, length);
  *at++ = '"';
  self->length += encoded + 2;
}
