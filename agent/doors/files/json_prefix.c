#include "agent/doors/files/json_prefix.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/json_string.h"
#include "base/utf8.h"
#include "wire/json_guard.h"

/* What may come next. */
enum expected { A_KEY_OR_END, A_KEY, A_COLON, A_VALUE, A_VALUE_OR_END, A_COMMA_OR_END, NOTHING };

#define DEPTH_MAX JSON_GUARD_DEPTH_MAX
_Static_assert(DEPTH_MAX <= 64, "a bit for each level");

struct scan {
  const char *text;
  size_t length;
  size_t at;
  enum expected expected;
  unsigned depth;
  uint64_t objects; /* bit n: level n is an object, not an array */
};

static bool in_object(const struct scan *self) {
  return (self->objects >> (self->depth - 1) & 1) != 0;
}

static bool is_space(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static bool is_hex(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') ||
         (byte >= 'A' && byte <= 'F');
}

static enum json_prefix scan_escape(struct scan *self) {
  self->at++;
  if (self->at == self->length)
    return JSON_PREFIX_SHORT;
  char letter = self->text[self->at];
  if (letter == '\0' || strchr("\"\\/bfnrtu", letter) == NULL)
    return JSON_PREFIX_BROKEN;
  self->at++;
  for (int digits = letter == 'u' ? 4 : 0; digits > 0; digits--) {
    if (self->at == self->length)
      return JSON_PREFIX_SHORT;
    if (!is_hex(self->text[self->at]))
      return JSON_PREFIX_BROKEN;
    self->at++;
  }
  return JSON_PREFIX_WHOLE;
}

static enum json_prefix scan_character(struct scan *self) {
  const char *character = self->text + self->at;
  size_t left = self->length - self->at;
  size_t length = utf8_sequence(character, left);
  if (length == 0)
    return utf8_cut(character, left) == 0 ? JSON_PREFIX_SHORT : JSON_PREFIX_BROKEN;
  self->at += length;
  return JSON_PREFIX_WHOLE;
}

static enum json_prefix scan_string(struct scan *self) {
  self->at++;
  for (;;) {
    self->at += json_string_plain(self->text + self->at, self->length - self->at);
    if (self->at == self->length)
      return JSON_PREFIX_SHORT;
    unsigned char byte = (unsigned char)self->text[self->at];
    if (byte == '"') {
      self->at++;
      return JSON_PREFIX_WHOLE;
    }
    enum json_prefix found = byte == '\\'   ? scan_escape(self)
                             : byte >= 0x80 ? scan_character(self)
                                            : JSON_PREFIX_BROKEN;
    if (found != JSON_PREFIX_WHOLE)
      return found;
  }
}

static enum json_prefix scan_word(struct scan *self, const char *word) {
  for (; *word != '\0'; word++, self->at++) {
    if (self->at == self->length)
      return JSON_PREFIX_SHORT;
    if (self->text[self->at] != *word)
      return JSON_PREFIX_BROKEN;
  }
  return JSON_PREFIX_WHOLE;
}

static enum json_prefix scan_number(struct scan *self) {
  while (self->at < self->length && self->text[self->at] != '\0' &&
         strchr("0123456789+-.eE", self->text[self->at]) != NULL)
    self->at++;
  return JSON_PREFIX_WHOLE;
}

static enum json_prefix open_bracket(struct scan *self, bool object) {
  if (self->depth == DEPTH_MAX)
    return JSON_PREFIX_BROKEN;
  uint64_t bit = UINT64_C(1) << self->depth++;
  self->objects = object ? self->objects | bit : self->objects & ~bit;
  self->expected = object ? A_KEY_OR_END : A_VALUE_OR_END;
  self->at++;
  return JSON_PREFIX_WHOLE;
}

static enum json_prefix close_bracket(struct scan *self) {
  self->depth--;
  self->expected = self->depth == 0 ? NOTHING : A_COMMA_OR_END;
  self->at++;
  return JSON_PREFIX_WHOLE;
}

static enum json_prefix scan_value(struct scan *self) {
  char byte = self->text[self->at];
  if (byte == '{' || (byte == '[' && self->depth > 0))
    return open_bracket(self, byte == '{');
  if (self->depth == 0) /* only an object may be the outermost */
    return JSON_PREFIX_BROKEN;
  self->expected = A_COMMA_OR_END;
  if (byte == '"')
    return scan_string(self);
  if (byte == '-' || (byte >= '0' && byte <= '9'))
    return scan_number(self);
  const char *word = byte == 't' ? "true" : byte == 'f' ? "false" : byte == 'n' ? "null" : NULL;
  return word != NULL ? scan_word(self, word) : JSON_PREFIX_BROKEN;
}

/* What begins at a byte that is no white space. */
static enum json_prefix scan_token(struct scan *self) {
  char byte = self->text[self->at];
  switch (self->expected) {
  case A_KEY_OR_END:
  case A_KEY:
    if (byte == '}' && self->expected == A_KEY_OR_END)
      return close_bracket(self);
    self->expected = A_COLON;
    return byte == '"' ? scan_string(self) : JSON_PREFIX_BROKEN;
  case A_COLON:
    self->expected = A_VALUE;
    return scan_word(self, ":");
  case A_COMMA_OR_END:
    if (byte == (in_object(self) ? '}' : ']'))
      return close_bracket(self);
    self->expected = in_object(self) ? A_KEY : A_VALUE;
    return scan_word(self, ",");
  case A_VALUE_OR_END:
    if (byte == ']')
      return close_bracket(self);
    return scan_value(self);
  case A_VALUE:
    return scan_value(self);
  case NOTHING:
    break;
  }
  return JSON_PREFIX_BROKEN;
}

enum json_prefix json_prefix_scan(const char *text, size_t length, size_t *at) {
  struct scan scan = {.text = text, .length = length, .expected = A_VALUE};
  enum json_prefix found = JSON_PREFIX_WHOLE;
  while (found == JSON_PREFIX_WHOLE) {
    while (scan.at < length && is_space(text[scan.at]))
      scan.at++;
    if (scan.at == length)
      break;
    found = scan_token(&scan);
  }
  *at = scan.at;
  if (found == JSON_PREFIX_WHOLE && scan.expected != NOTHING)
    return JSON_PREFIX_SHORT;
  return found;
}
