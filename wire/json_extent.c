#include "wire/json_extent.h"

static bool is_space(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static void take_in_string(struct json_extent *self, char byte) {
  if (self->escaped)
    self->escaped = false;
  else if (byte == '\\')
    self->escaped = true;
  else if (byte == '"')
    self->in_string = false;
}

/* True for the last byte of the value. */
static bool take(struct json_extent *self, char byte) {
  if (self->in_string) {
    take_in_string(self, byte);
    return false;
  }
  if (!self->begun && is_space(byte))
    return false;
  if (!self->begun) {
    self->begun = true;
    self->scalar = byte != '{' && byte != '[';
  }
  if (self->scalar)
    return byte == '\n';
  if (byte == '"')
    self->in_string = true;
  else if (byte == '{' || byte == '[')
    self->depth++;
  else if ((byte == '}' || byte == ']') && --self->depth == 0)
    return true;
  return false;
}

bool json_extent_take(struct json_extent *self, const char *bytes, size_t length, size_t *taken) {
  for (size_t i = 0; i < length; i++)
    if (take(self, bytes[i])) {
      *taken = i + 1;
      return true;
    }
  *taken = length;
  return false;
}
