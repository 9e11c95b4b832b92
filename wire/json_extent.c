#include "wire/json_extent.h"

#include <string.h>

#include "base/utf8.h"

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

static bool is_mark(char byte) {
  return memchr(UTF8_MARK, byte, UTF8_MARK_LENGTH) != NULL;
}

static void begin(struct json_extent *self, char byte) {
  self->begun = true;
  self->number = byte == '-' || (byte >= '0' && byte <= '9');
  if (byte == 'n' || byte == 't')
    self->letters = 4;
  else if (byte == 'f')
    self->letters = 5;
  else if (!self->number && byte != '{' && byte != '[' && byte != '"')
    self->letters = 1; /* of what is no JSON */
}

/* True for the last byte of the value. */
static bool take(struct json_extent *self, char byte) {
  if (self->in_string) {
    take_in_string(self, byte);
    return !self->in_string && self->depth == 0;
  }
  if (!self->begun && (is_space(byte) || is_mark(byte)))
    return false;
  if (!self->begun)
    begin(self, byte);
  if (self->letters > 0)
    return --self->letters == 0;
  if (self->number)
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
