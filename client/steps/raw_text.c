#include "client/steps/raw_text.h"

#include <string.h>

#include "base/utf8.h"

void raw_text_add(struct raw_text *self, const char *bytes, size_t length, struct buffer *out) {
  const size_t begin = out->length;
  buffer_add(out, self->rest, self->rest_length);
  for (size_t i = 0; i < length; i++) {
    if (bytes[i] != '\n' || !self->after_return)
      buffer_add(out, bytes[i] == '\r' ? "\n" : &bytes[i], 1);
    self->after_return = bytes[i] == '\r';
  }
  const size_t added = out->length - begin;
  const size_t whole = added > 0 ? utf8_cut(out->bytes + begin, added) : 0;
  self->rest_length = added - whole;
  if (self->rest_length > 0)
    memcpy(self->rest, out->bytes + begin + whole, self->rest_length);
  out->length = begin + whole;
}

void raw_text_end(struct raw_text *self, struct buffer *out) {
  buffer_add(out, self->rest, self->rest_length);
  *self = (struct raw_text){0};
}
