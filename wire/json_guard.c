#include "wire/json_guard.h"

#include <assert.h>
#include <string.h>

#include "base/check.h"
#include "base/json_string.h"
#include "base/memory.h"
#include "base/utf8.h"

static const char nul_escape[] = "\\u0000";
#define ESCAPE_LENGTH (sizeof nul_escape - 1)
#define NUL_LENGTH (sizeof JSON_GUARD_NUL - 1)
static_assert(NUL_LENGTH <= ESCAPE_LENGTH, "a marked copy is no longer than its text");

/* One pass over one text. */
struct scan {
  struct json_guard *guard;
  const char *text;
  size_t length;
  size_t at;
  const char *member;
  size_t depth;
  size_t values;
  bool root_seen;   /* a bracket was opened */
  bool inside_root; /* and it is the outermost one, of an object, and still open */
  size_t errors;
  struct error *error;
};

/* Counts an error; true for the first, which is the one that is reported. */
static bool count_error(struct scan *self) {
  return self->errors++ == 0;
}

static void scan_high_byte(struct scan *self) {
  size_t n = utf8_sequence(self->text + self->at, self->length - self->at);
  if (n == 0 && count_error(self))
    error_set(self->error, "payload: expected UTF-8, broken at byte %zu", self->at);
  self->at += n > 0 ? n : 1;
}

static void scan_control(struct scan *self) {
  if (count_error(self))
    error_set(self->error, "payload: expected JSON, got a raw control character 0x%02x at byte %zu",
              (unsigned)self->text[self->at], self->at);
  self->at++;
}

static bool is_hex(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') ||
         (byte >= 'A' && byte <= 'F');
}

/* cJSON reads \u with other than hexadecimal digits as a NUL. */
static void scan_escape(struct scan *self) {
  const char *escape = self->text + self->at;
  size_t left = self->length - self->at;
  if (left < 2 || escape[1] != 'u') {
    self->at += left < 2 ? 1 : 2;
    return;
  }
  size_t n = 2;
  while (n < ESCAPE_LENGTH && n < left && is_hex(escape[n]))
    n++;
  if (n < ESCAPE_LENGTH && count_error(self))
    error_set(self->error, "payload: expected four hexadecimal digits after \\u at byte %zu",
              self->at);
  if (n == ESCAPE_LENGTH && memcmp(escape, nul_escape, ESCAPE_LENGTH) == 0)
    self->guard->has_nul = true;
  self->at += n;
}

/* Goes from the opening quote to after the closing one; false where the text ends before that. */
static bool scan_string(struct scan *self) {
  self->at++;
  for (;;) {
    self->at += json_string_plain(self->text + self->at, self->length - self->at);
    if (self->at == self->length)
      return false;
    unsigned char byte = (unsigned char)self->text[self->at];
    if (byte == '"') {
      self->at++;
      return true;
    }
    if (byte == '\\')
      scan_escape(self);
    else if (byte >= 0x80)
      scan_high_byte(self);
    else
      scan_control(self);
  }
}

static bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

static size_t skip_digits(const char *text, size_t at, size_t length) {
  while (at < length && is_digit(text[at]))
    at++;
  return at;
}

/* cJSON accepts what strtod accepts: 01, 1. and -.5 too. */
static bool is_number(const char *text, size_t length) {
  size_t at = text[0] == '-';
  size_t digits = at;
  at = skip_digits(text, at, length);
  if (at == digits || (text[digits] == '0' && at > digits + 1))
    return false;
  if (at < length && text[at] == '.') {
    digits = ++at;
    at = skip_digits(text, at, length);
    if (at == digits)
      return false;
  }
  if (at < length && (text[at] == 'e' || text[at] == 'E')) {
    at++;
    if (at < length && (text[at] == '+' || text[at] == '-'))
      at++;
    digits = at;
    at = skip_digits(text, at, length);
    if (at == digits)
      return false;
  }
  return at == length;
}

static bool is_number_byte(char byte) {
  return is_digit(byte) || byte == '-' || byte == '+' || byte == '.' || byte == 'e' || byte == 'E';
}

static void scan_number(struct scan *self) {
  size_t start = self->at;
  while (self->at < self->length && is_number_byte(self->text[self->at]))
    self->at++;
  if (!is_number(self->text + start, self->at - start) && count_error(self))
    error_set(self->error, "payload: expected a JSON number at byte %zu", start);
}

static bool is_space(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static void skip_space(struct scan *self) {
  while (self->at < self->length && is_space(self->text[self->at]))
    self->at++;
}

/* Goes over a string; when it is the member's name, over the member's value too. */
static void scan_token(struct scan *self) {
  const char *name = self->text + self->at + 1;
  size_t name_length = strlen(self->member);
  size_t start = self->at;
  if (!scan_string(self) || !self->inside_root || self->depth != 1 || self->guard->member != NULL ||
      self->at - start != name_length + 2 || memcmp(name, self->member, name_length) != 0)
    return;
  skip_space(self);
  if (self->at == self->length || self->text[self->at] != ':')
    return;
  self->at++;
  skip_space(self);
  if (self->at == self->length || self->text[self->at] != '"')
    return;
  start = self->at;
  size_t errors = self->errors;
  if (scan_string(self) && self->errors == errors) {
    self->guard->member = self->text + start;
    self->guard->member_length = self->at - start;
  }
}

/* Each value but the outermost follows an opening bracket or a comma. */
static void count_value(struct scan *self) {
  self->values++;
  if (self->values == JSON_GUARD_VALUES_MAX && count_error(self))
    error_set(self->error, "payload: expected at most %d values, got more", JSON_GUARD_VALUES_MAX);
}

static void open_bracket(struct scan *self, char bracket) {
  if (self->depth == 0)
    self->inside_root = !self->root_seen && bracket == '{';
  self->root_seen = true;
  self->depth++;
  if (self->depth == JSON_GUARD_DEPTH_MAX + 1 && count_error(self))
    error_set(self->error, "payload: expected at most %d levels of nesting, got more at byte %zu",
              JSON_GUARD_DEPTH_MAX, self->at);
  count_value(self);
}

static void close_bracket(struct scan *self) {
  if (self->depth > 0)
    self->depth--;
  if (self->depth == 0)
    self->inside_root = false;
}

static void scan_byte(struct scan *self) {
  char byte = self->text[self->at];
  if (byte == '"') {
    scan_token(self);
  } else if (byte == '-' || is_digit(byte)) {
    scan_number(self);
  } else if ((unsigned char)byte >= 0x80) {
    scan_high_byte(self);
  } else if ((unsigned char)byte < 0x20 && !is_space(byte)) {
    scan_control(self);
  } else {
    if (byte == ',')
      count_value(self);
    else if (byte == '{' || byte == '[')
      open_bracket(self, byte);
    else if (byte == '}' || byte == ']')
      close_bracket(self);
    self->at++;
  }
}

int json_guard_scan(struct json_guard *self, const char *text, size_t length, const char *member,
                    struct error *error) {
  *self = (struct json_guard){0};
  struct scan scan = {
      .guard = self, .text = text, .length = length, .member = member, .error = error};
  while (scan.at < length)
    scan_byte(&scan);
  self->values = scan.values;
  return scan.errors > 0 ? -1 : 0;
}

char *json_guard_mark_nul(const char *text, size_t length, size_t *copy_length) {
  char *copy = memory_allocate(length);
  char *out = copy;
  const char *end = text + length;
  while (text < end) {
    const char *escape = memchr(text, '\\', (size_t)(end - text));
    size_t run = (size_t)((escape != NULL ? escape : end) - text);
    memcpy(out, text, run);
    out += run;
    text += run;
    if (text == end)
      break;
    size_t left = (size_t)(end - text);
    if (left >= ESCAPE_LENGTH && memcmp(text, nul_escape, ESCAPE_LENGTH) == 0) {
      memcpy(out, JSON_GUARD_NUL, NUL_LENGTH);
      out += NUL_LENGTH;
      text += ESCAPE_LENGTH;
    } else {
      /* The byte after a backslash is part of the escape: it may itself be a backslash. */
      size_t n = left < 2 ? left : 2;
      memcpy(out, text, n);
      out += n;
      text += n;
    }
  }
  *copy_length = (size_t)(out - copy);
  CHECK(*copy_length <= length);
  return copy;
}

size_t json_guard_unmark_nul(char *text) {
  const char *start = text;
  char *out = text;
  for (const char *mark; (mark = strstr(text, JSON_GUARD_NUL)) != NULL;) {
    size_t run = (size_t)(mark - text);
    memmove(out, text, run);
    out += run;
    *out++ = '\0';
    text += run + NUL_LENGTH;
  }
  size_t rest = strlen(text);
  memmove(out, text, rest + 1);
  return (size_t)(out + rest - start);
}

size_t json_guard_text_offset(const char *copy, size_t offset) {
  size_t marks = 0;
  for (size_t i = 0; i < offset; i++)
    marks += copy[i] == JSON_GUARD_NUL[0];
  return offset + marks * (ESCAPE_LENGTH - NUL_LENGTH);
}
