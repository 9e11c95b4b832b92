#include "wire/json_text.h"

#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "base/json_string.h"
#include "base/utf8.h"

#define ESCAPED_NUL "\\u0000"
#define ESCAPED_LENGTH (sizeof ESCAPED_NUL - 1)

/* `wrong` and `skipped` count from where the part begins. Only what is broken is skipped. */
static enum json_text_state stop_at(struct json_text *self, enum json_text_fault fault,
                                    size_t wrong, size_t skipped) {
  self->fault = fault;
  self->part = self->at;
  self->wrong = self->at + wrong;
  self->at += skipped;
  return skipped > 0 ? JSON_TEXT_BROKEN : JSON_TEXT_SHORT;
}

static enum json_text_state take_bytes(struct json_text *self, size_t count) {
  self->at += count;
  return JSON_TEXT_WHOLE;
}

static enum json_text_state take_unicode(struct json_text *self, const char *escape, size_t left) {
  size_t n = 2;
  while (n < ESCAPED_LENGTH && n < left && isxdigit((unsigned char)escape[n]))
    n++;
  if (n < ESCAPED_LENGTH)
    return stop_at(self, JSON_TEXT_HEX, n, n < left ? n : 0);
  self->has_nul |= memcmp(escape, ESCAPED_NUL, ESCAPED_LENGTH) == 0;
  return take_bytes(self, n);
}

static enum json_text_state take_escape(struct json_text *self) {
  const char *escape = self->bytes + self->at;
  size_t left = self->length - self->at;
  if (left < 2)
    return stop_at(self, JSON_TEXT_FINE, 0, 0);
  switch (escape[1]) {
  case '"':
  case '\\':
  case '/':
  case 'b':
  case 'f':
  case 'n':
  case 'r':
  case 't':
    return take_bytes(self, 2);
  case 'u':
    return take_unicode(self, escape, left);
  default:
    return stop_at(self, JSON_TEXT_ESCAPE, 1, 2);
  }
}

static enum json_text_state take_character(struct json_text *self) {
  const char *character = self->bytes + self->at;
  size_t left = self->length - self->at, n = utf8_sequence(character, left);
  return n > 0 ? take_bytes(self, n)
               : stop_at(self, JSON_TEXT_UTF8, 0, utf8_cut(character, left) > 0);
}

/* From its first byte that is not plain, or where it was left. */
static enum json_text_state take_open_string(struct json_text *self) {
  enum json_text_state state;
  do {
    size_t at = self->at + json_string_plain(self->bytes + self->at, self->length - self->at);
    self->at = at;
    if (at == self->length)
      return stop_at(self, JSON_TEXT_FINE, 0, 0);
    unsigned char byte = (unsigned char)self->bytes[at];
    if (byte == '"') {
      self->is_open = false;
      return take_bytes(self, 1);
    }
    state = byte == '\\'   ? take_escape(self)
            : byte >= 0x80 ? take_character(self)
                           : stop_at(self, JSON_TEXT_CONTROL, 0, 1);
  } while (state == JSON_TEXT_WHOLE);
  return state;
}

static bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

static bool is_of_number(char byte) {
  return is_digit(byte) || byte == '+' || byte == '-' || byte == '.' || byte == 'e' || byte == 'E';
}

static const char *skip_digits(const char *at, const char *end) {
  while (at < end && is_digit(*at))
    at++;
  return at;
}

/* cJSON accepts what strtod accepts: 01, 1. and -.5 too. */
static bool is_number(const char *at, const char *end) {
  const char *digits = at + (*at == '-');
  at = skip_digits(digits, end);
  bool is_fine = at > digits && (*digits != '0' || at == digits + 1);
  if (is_fine && at < end && *at == '.') {
    digits = at + 1;
    at = skip_digits(digits, end);
    is_fine = at > digits;
  }
  if (is_fine && at < end && (*at == 'e' || *at == 'E')) {
    digits = at + 1;
    digits += digits < end && (*digits == '+' || *digits == '-');
    at = skip_digits(digits, end);
    is_fine = at > digits;
  }
  return is_fine && at == end;
}

static enum json_text_state take_any_number(struct json_text *self) {
  const char *first = self->bytes + self->at;
  size_t n = 1, left = self->length - self->at;
  while (n < left && is_of_number(first[n]))
    n++;
  bool is_fine = is_number(first, first + n);
  if (is_fine && n < left)
    return take_bytes(self, n);
  return stop_at(self, is_fine ? JSON_TEXT_FINE : JSON_TEXT_NUMBER, 0, n < left ? n : 0);
}

/* Most are digits and nothing else. */
static inline enum json_text_state take_number(struct json_text *self) {
  const char *first = self->bytes + self->at, *end = self->bytes + self->length;
  self->token = '0';
  const char *at = *first == '0' ? first + 1 : skip_digits(first, end);
  if (at == first || at == end || is_of_number(*at))
    return take_any_number(self);
  return take_bytes(self, (size_t)(at - first));
}

static enum json_text_state take_word(struct json_text *self, const char *word) {
  self->token = 'a';
  size_t n = 1, left = self->length - self->at;
  while (n < left && word[n] != '\0' && self->bytes[self->at + n] == word[n])
    n++;
  if (word[n] == '\0')
    return take_bytes(self, n);
  return stop_at(self, n < left ? JSON_TEXT_OTHER : JSON_TEXT_FINE, n, n < left ? n : 0);
}

static enum json_text_state take_other(struct json_text *self, char byte) {
  self->token = '?';
  size_t n = utf8_sequence(self->bytes + self->at, self->length - self->at);
  if (n == 0)
    return take_character(self);
  return stop_at(self, (unsigned char)byte < 0x20 ? JSON_TEXT_CONTROL : JSON_TEXT_OTHER, 0, n);
}

static bool is_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* Inline: json_text_check reads every payload, and a token may be a single byte. */
static inline __attribute__((always_inline)) enum json_text_state
next_token(struct json_text *self) {
  if (self->is_open)
    return take_open_string(self);
  size_t at = self->at;
  while (at < self->length && is_space(self->bytes[at]))
    at++;
  self->start = self->at = at;
  char byte = at < self->length ? self->bytes[at] : '\0';
  self->token = byte;
  switch (byte) {
  case ',': /* each value but the outermost follows one, or an opening bracket */
    self->values++;
    break;
  case ':':
    break;
  case '{':
  case '[':
    self->values++;
    if (++self->depth > JSON_TEXT_DEPTH_MAX)
      return stop_at(self, JSON_TEXT_DEEP, 0, 1);
    break;
  case '}':
  case ']':
    self->depth -= self->depth > 0;
    break;
  case '"':
    at++;
    at += json_string_plain(self->bytes + at, self->length - at);
    if (at < self->length && self->bytes[at] == '"')
      break;
    self->at = at;
    self->is_open = true;
    return take_open_string(self);
  case 't':
    return take_word(self, "true");
  case 'f':
    return take_word(self, "false");
  case 'n':
    return take_word(self, "null");
  default:
    if (at == self->length)
      return stop_at(self, JSON_TEXT_FINE, 0, 0);
    return byte == '-' || is_digit(byte) ? take_number(self) : take_other(self, byte);
  }
  self->at = at + 1;
  return JSON_TEXT_WHOLE;
}

enum json_text_state json_text_next(struct json_text *self) {
  return next_token(self);
}

enum json_text_fault json_text_check(struct json_text *self) {
  for (;;) {
    enum json_text_state state = next_token(self);
    if (state != JSON_TEXT_WHOLE && self->fault >= JSON_TEXT_UTF8)
      return self->fault;
    if (self->values >= JSON_TEXT_VALUES_MAX)
      return JSON_TEXT_MANY;
    if (state == JSON_TEXT_SHORT)
      return JSON_TEXT_FINE;
  }
}

bool json_text_ends(struct json_text *self, const char *bytes, size_t length, size_t *extent) {
  self->bytes = bytes;
  self->length = length;
  while (self->token != '0' || self->depth > 0) {
    enum json_text_state state = json_text_next(self);
    if (state == JSON_TEXT_SHORT && self->token == '0')
      self->at = length; /* it may be long, and what it is does not matter */
    if (state == JSON_TEXT_SHORT)
      return false;
    bool is_mark = self->start == 0 && utf8_is_marked(bytes, length);
    if (self->depth > 0 || is_mark || self->token == '0' || self->is_open)
      continue;
    *extent = state == JSON_TEXT_WHOLE ? self->at : self->start + 1;
    return true;
  }
  const char *newline = memchr(bytes + self->at, '\n', length - self->at);
  self->at = newline != NULL ? (size_t)(newline + 1 - bytes) : length;
  *extent = self->at;
  return newline != NULL;
}

/* The tokens that may come after this one. */
static const char *tokens_after(const struct json_text *text, bool is_key, bool in_object) {
  switch (text->token) {
  case '{':
    return "\"}";
  case '[':
    return "{[\"0a]";
  case ',':
    return in_object ? "\"" : "{[\"0a";
  case ':':
    return "{[\"0a";
  default:
    if (is_key && text->token == '"')
      return ":";
    return text->depth == 0 ? "" : in_object ? ",}" : ",]";
  }
}

enum json_text_state json_text_object(const char *bytes, size_t length, size_t *wrong) {
  struct json_text text = {.bytes = bytes, .length = length};
  const char *expected = "{";
  uint64_t objects = 0; /* the lowest bit: the innermost level is an object, not an array */
  static_assert(JSON_TEXT_DEPTH_MAX <= 64, "a bit for each level");
  for (;;) {
    enum json_text_state state = json_text_next(&text);
    bool is_expected = strchr(expected, text.token) != NULL; /* the end always is */
    *wrong = is_expected ? text.wrong : text.start;
    if (!is_expected || (state == JSON_TEXT_BROKEN && text.token != '0'))
      return JSON_TEXT_BROKEN;
    if (state == JSON_TEXT_SHORT)
      return *expected == '\0' ? JSON_TEXT_WHOLE : JSON_TEXT_SHORT;
    if (text.token == '{' || text.token == '[')
      objects = objects << 1 | (text.token == '{');
    else if (text.token == '}' || text.token == ']')
      objects >>= 1;
    expected = tokens_after(&text, *expected == '"', (objects & 1) != 0);
  }
}
