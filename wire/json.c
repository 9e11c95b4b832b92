#include "wire/json.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_string.h"
#include "base/memory.h"
#include "base/swar.h"
#include "base/utf8.h"

#define ESCAPED_NUL "\\u0000"
#define ESCAPED_LENGTH (sizeof ESCAPED_NUL - 1)

/* `wrong` and `skipped` count from the beginning of the part; nothing of a short one is skipped. */
static enum json_text_state stop_at(struct json_text *self, enum json_text_fault fault,
                                    size_t wrong, size_t skipped) {
  self->fault = fault;
  self->part = self->at;
  self->wrong = self->at + wrong;
  self->at += skipped;
  return skipped > 0 ? JSON_TEXT_BROKEN : JSON_TEXT_SHORT;
}

static enum json_text_state accept(struct json_text *self, size_t count) {
  self->at += count;
  return JSON_TEXT_WHOLE;
}

/* Whether the bytes, or as many of them as there are, are an escape of U+D800 to U+DBFF, or of
   U+DC00 to U+DFFF if `is_low`. */
static bool is_surrogate(const char *escape, size_t left, bool is_low) {
  const char *letters = is_low ? "CDEFcdef" : "89ABab";
  return (left < 1 || escape[0] == '\\') && (left < 2 || escape[1] == 'u') &&
         (left < 3 || escape[2] == 'D' || escape[2] == 'd') &&
         (left < 4 || strchr(letters, escape[3]) != NULL) &&
         (left < 5 || isxdigit((unsigned char)escape[4])) &&
         (left < 6 || isxdigit((unsigned char)escape[5]));
}

static enum json_text_state read_unicode(struct json_text *self, const char *escape, size_t left) {
  size_t n = 2;
  while (n < ESCAPED_LENGTH && n < left && isxdigit((unsigned char)escape[n]))
    n++;
  if (n < ESCAPED_LENGTH)
    return stop_at(self, JSON_TEXT_HEX, n, n < left ? n : 0);
  if (is_surrogate(escape, n, false)) {
    bool is_pair = is_surrogate(escape + n, left - n, true);
    if (is_pair && left >= n + ESCAPED_LENGTH)
      return accept(self, n + ESCAPED_LENGTH);
    return stop_at(self, JSON_TEXT_SURROGATE, 0, is_pair ? 0 : n);
  }
  if (is_surrogate(escape, n, true))
    return stop_at(self, JSON_TEXT_SURROGATE, 0, n);
  self->has_nul |= memcmp(escape, ESCAPED_NUL, ESCAPED_LENGTH) == 0;
  return accept(self, n);
}

static enum json_text_state read_escape(struct json_text *self) {
  const char *escape = self->bytes + self->at;
  size_t left = self->length - self->at;
  if (left < 2)
    return stop_at(self, JSON_TEXT_FINE, 0, 0);
  if (escape[1] == 'u')
    return read_unicode(self, escape, left);
  return memchr("\"\\/bfnrt", escape[1], 8) != NULL ? accept(self, 2)
                                                    : stop_at(self, JSON_TEXT_ESCAPE, 1, 2);
}

static enum json_text_state read_character(struct json_text *self) {
  const char *character = self->bytes + self->at;
  size_t left = self->length - self->at, n = utf8_sequence(character, left);
  return n > 0 ? accept(self, n) : stop_at(self, JSON_TEXT_UTF8, 0, utf8_cut(character, left) > 0);
}

/* Reads a string from its first byte that is not plain, or from where the last call stopped. */
static enum json_text_state read_open_string(struct json_text *self) {
  enum json_text_state state;
  do {
    size_t at = self->at + json_string_plain(self->bytes + self->at, self->length - self->at);
    self->at = at;
    if (at == self->length)
      return stop_at(self, JSON_TEXT_FINE, 0, 0);
    unsigned char byte = (unsigned char)self->bytes[at];
    if (byte == '"') {
      self->is_open = false;
      return accept(self, 1);
    }
    state = byte == '\\'   ? read_escape(self)
            : byte >= 0x80 ? read_character(self)
                           : stop_at(self, JSON_TEXT_CONTROL, 0, 1);
  } while (state == JSON_TEXT_WHOLE);
  return state;
}

static bool is_of_number(char byte) {
  return isdigit((unsigned char)byte) || memchr("+-.eE", byte, 5) != NULL;
}

static const char *skip_digits(const char *at, const char *end) {
  while (at < end && isdigit((unsigned char)*at))
    at++;
  return at;
}

/* Stricter than cJSON, which accepts what strtod(3) accepts: 01, 1. and -.5, too. */
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

static enum json_text_state read_number(struct json_text *self) {
  const char *first = self->bytes + self->at;
  size_t n = 1, left = self->length - self->at;
  self->token = '0';
  while (n < left && is_of_number(first[n]))
    n++;
  bool is_fine = is_number(first, first + n);
  if (is_fine && n < left)
    return accept(self, n);
  return stop_at(self, is_fine ? JSON_TEXT_FINE : JSON_TEXT_NUMBER, 0, n < left ? n : 0);
}

static enum json_text_state read_word(struct json_text *self, const char *word) {
  self->token = 'a';
  size_t n = 1, left = self->length - self->at;
  while (n < left && word[n] != '\0' && self->bytes[self->at + n] == word[n])
    n++;
  if (word[n] == '\0')
    return accept(self, n);
  return stop_at(self, n < left ? JSON_TEXT_OTHER : JSON_TEXT_FINE, n, n < left ? n : 0);
}

static enum json_text_state read_other(struct json_text *self, char byte) {
  self->token = '?';
  size_t n = utf8_sequence(self->bytes + self->at, self->length - self->at);
  if (n == 0)
    return read_character(self);
  return stop_at(self, (unsigned char)byte < 0x20 ? JSON_TEXT_CONTROL : JSON_TEXT_OTHER, 0, n);
}

static bool is_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* Inline, because it checks every payload. */
static inline __attribute__((always_inline)) enum json_text_state
next_token(struct json_text *self) {
  if (self->is_open)
    return read_open_string(self);
  size_t at = self->at;
  while (at < self->length && is_space(self->bytes[at]))
    at++;
  self->start = self->at = at;
  char byte = at < self->length ? self->bytes[at] : '\0';
  self->token = byte;
  switch (byte) {
  case ',': /* each value except the outermost follows a comma or an opening bracket */
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
    return read_open_string(self);
  case 't':
    return read_word(self, "true");
  case 'f':
    return read_word(self, "false");
  case 'n':
    return read_word(self, "null");
  default:
    if (at == self->length)
      return stop_at(self, JSON_TEXT_FINE, 0, 0);
    return byte == '-' || isdigit((unsigned char)byte) ? read_number(self) : read_other(self, byte);
  }
  self->at = at + 1;
  return JSON_TEXT_WHOLE;
}

enum json_text_state json_text_next(struct json_text *self) {
  return next_token(self);
}

bool json_text_ends(struct json_text *self, const char *bytes, size_t length, size_t *extent) {
  self->bytes = bytes;
  self->length = length;
  while (self->token != '0' || self->depth > 0) {
    enum json_text_state state = json_text_next(self);
    if (state == JSON_TEXT_SHORT && self->token == '0')
      self->at = length; /* the number may be long, and its value does not matter */
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
  const size_t mark = length < UTF8_MARK_LENGTH ? length : UTF8_MARK_LENGTH;
  const bool is_marked = mark > 0 && memcmp(bytes, UTF8_MARK, mark) == 0;
  struct json_text text = {.bytes = bytes, .length = length, .at = is_marked ? mark : 0};
  const char *expected = "{";
  uint64_t objects = 0; /* a bit for each level, the innermost lowest: it is an object */
  static_assert(JSON_TEXT_DEPTH_MAX <= 64, "a bit for each level");
  for (;;) {
    enum json_text_state state = json_text_next(&text);
    bool is_expected = strchr(expected, text.token) != NULL; /* always true for the end */
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

/* --- outlines --- */

static const char *find_name(const struct json_outline *self) {
  const struct json_text *text = &self->text;
  const size_t length = text->at - text->start;
  for (const char *const *name = self->names; *name != NULL; name++)
    if (length == strlen(*name) + 2 &&
        memcmp(text->bytes + text->start + 1, *name, length - 2) == 0)
      return *name;
  return NULL;
}

static void copy_member(struct json_outline *self) {
  const struct json_text *text = &self->text;
  struct buffer *members = &self->members;
  const size_t length = text->at - text->start;
  if (members->length + strlen(self->name) + length + sizeof ",\"\":}" > JSON_OUTLINE_MAX)
    return;
  members->length -= members->length > 0; /* the bracket */
  buffer_add_format(members, "%c\"%s\":%.*s}", members->length > 0 ? ',' : '{', self->name,
                    (int)length, text->bytes + text->start);
}

static void outline_token(struct json_outline *self, bool is_whole) {
  const char token = self->text.token;
  const bool is_scalar =
      is_whole && !self->is_long && (token == '"' || token == '0' || token == 'a');
  if (is_scalar && self->has_colon)
    copy_member(self);
  const bool is_colon = token == ':' && self->name != NULL && !self->has_colon;
  if (!is_colon) {
    const bool may_be_name = is_scalar && token == '"' && !self->has_colon;
    self->name = may_be_name && self->text.depth == 1 ? find_name(self) : NULL;
  }
  self->has_colon = is_colon;
  self->is_long = self->is_long && self->text.is_open;
}

/* Returns from where on the text is needed again: the beginning of an unfinished token. */
static size_t keep_unfinished(struct json_outline *self) {
  struct json_text *text = &self->text;
  const bool is_short = text->length - text->start <= JSON_OUTLINE_MAX;
  size_t from = text->at;
  if (text->is_open && !self->is_long && is_short)
    from = text->start;
  else if (text->is_open)
    self->is_long = true;
  else if (!is_short) {
    from = text->at = text->length; /* the middle of a number */
    self->has_colon = false;
  }
  text->at -= from;
  text->start = 0;
  return from;
}

size_t json_outline_add(struct json_outline *self, const char *bytes, size_t length) {
  struct json_text *text = &self->text;
  text->bytes = bytes;
  text->length = length;
  if (text->at > length) /* the caller has cut off the line ending */
    text->at = length;
  if (text->start > text->at)
    text->start = text->at;
  while (self->place != JSON_OUTLINE_BEHIND) {
    enum json_text_state state = json_text_next(text);
    if (state == JSON_TEXT_SHORT)
      return keep_unfinished(self);
    if (self->place == JSON_OUTLINE_INSIDE)
      outline_token(self, state == JSON_TEXT_WHOLE);
    else if (text->depth > 0)
      self->place = text->token == '{' ? JSON_OUTLINE_INSIDE : JSON_OUTLINE_BEHIND;
    if (self->place == JSON_OUTLINE_INSIDE && text->depth == 0)
      self->place = JSON_OUTLINE_BEHIND;
  }
  return length;
}

/* --- trees --- */

#define MARK_LENGTH (sizeof JSON_TREE_NUL - 1)
static_assert(MARK_LENGTH <= ESCAPED_LENGTH, "a marked copy is no longer than its text");

/* Reads to the end, or to the first fault that cJSON would accept, which is JSON_TEXT_UTF8 or one
   behind it in the enum; `part` is where it is. */
static enum json_text_fault check(struct json_text *self) {
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

static void explain_fault(const struct json_text *text, enum json_text_fault fault,
                          struct error *error) {
  static const char *const faults[] = {
      [JSON_TEXT_UTF8] = "expected UTF-8, broken",
      [JSON_TEXT_HEX] = "expected four hexadecimal digits after \\u",
      [JSON_TEXT_NUMBER] = "expected a JSON number",
      [JSON_TEXT_DEEP] = "expected at most 64 levels of nesting, got more"};
  static_assert(JSON_TEXT_DEPTH_MAX == 64, "the text above says 64");
  if (fault == JSON_TEXT_MANY)
    (void)error_set(error, "expected at most %d values, got more", JSON_TEXT_VALUES_MAX);
  else if (fault == JSON_TEXT_SURROGATE)
    (void)error_set(error, "expected a pair of surrogates, got \\u%.4s alone at byte %zu",
                    text->bytes + text->part + 2, text->part);
  else if (fault == JSON_TEXT_CONTROL)
    (void)error_set(error, "expected JSON, got a raw control character 0x%02x at byte %zu",
                    (unsigned)text->bytes[text->part], text->part);
  else
    (void)error_set(error, "%s at byte %zu", faults[fault], text->part);
}

/* Returns a copy with JSON_TREE_NUL in place of each escaped NUL. */
static char *mark_nul(const char *text, size_t *length) {
  const char *end = text + *length, *escape;
  char *copy = memory_allocate(*length), *out = copy;
  while ((escape = memchr(text, '\\', (size_t)(end - text))) != NULL) {
    size_t left = (size_t)(end - escape);
    bool is_nul = left >= ESCAPED_LENGTH && memcmp(escape, ESCAPED_NUL, ESCAPED_LENGTH) == 0;
    out = swar_copy(out, text, (size_t)(escape - text));
    /* The byte after a backslash, which may itself be a backslash, is part of the escape. */
    out = swar_copy(out, is_nul ? JSON_TREE_NUL : escape, left < 2 ? left : 2);
    text = escape + (is_nul ? ESCAPED_LENGTH : left < 2 ? left : 2);
  }
  out = swar_copy(out, text, (size_t)(end - text));
  *length = (size_t)(out - copy);
  return copy;
}

size_t json_tree_unmark_nul(char *text) {
  char *out = text;
  for (const char *at = text;; at += MARK_LENGTH) {
    const char *mark = strstr(at, JSON_TREE_NUL);
    size_t run = mark != NULL ? (size_t)(mark - at) : strlen(at);
    memmove(out, at, run);
    out += run;
    *out = '\0';
    if (mark == NULL)
      return (size_t)(out - text);
    out++;
    at = mark;
  }
}

static size_t text_offset(const char *copy, size_t offset) {
  size_t marks = 0;
  for (size_t i = 0; i < offset; i++)
    marks += copy[i] == JSON_TREE_NUL[0];
  return offset + marks * (ESCAPED_LENGTH - MARK_LENGTH);
}

/* Only white space may follow the value. cJSON reports exhausted memory like bad JSON; errno tells
   them apart. */
static cJSON *parse_all(const char *text, size_t length, struct error *error) {
  const char *end = text;
  errno = 0;
  cJSON *tree = cJSON_ParseWithLengthOpts(text, length, &end, false);
  struct json_text rest = {.bytes = text, .length = length, .at = (size_t)(end - text)};
  (void)json_text_next(&rest);
  if (tree == NULL && errno == ENOMEM)
    (void)error_set(error, "there is not enough memory for its %zu bytes", length);
  else if (tree == NULL)
    (void)error_set(error, "expected JSON, got invalid or truncated text near byte %zu",
                    length > 0 ? text_offset(text, (size_t)(end - text)) : 0);
  else if (rest.token != '\0')
    (void)error_set(error, "expected one object, got more behind it at byte %zu",
                    text_offset(text, rest.start));
  else
    return tree;
  cJSON_Delete(tree);
  return NULL;
}

cJSON *json_tree_parse_counted(const char *text, size_t length, size_t *values,
                               struct error *error) {
  struct json_text checked = {.bytes = text, .length = length};
  enum json_text_fault fault = check(&checked);
  *values = checked.values;
  if (fault != JSON_TEXT_FINE) {
    explain_fault(&checked, fault, error);
    return NULL;
  }
  char *marked = checked.has_nul ? mark_nul(text, &length) : NULL;
  cJSON *tree = parse_all(marked != NULL ? marked : text, length, error);
  free(marked);
  return tree;
}

cJSON *json_tree_parse(const char *text, size_t length, struct error *error) {
  size_t values;
  return json_tree_parse_counted(text, length, &values, error);
}

/* --- members in their original text --- */

/* Moves to the end of the value that the token begins; returns false if it begins none. */
static bool read_value(struct json_text *text, struct json_member *out) {
  size_t start = text->start, depth = text->depth;
  bool is_nested = text->token == '{' || text->token == '[';
  if (!is_nested && text->token != '"' && text->token != '0' && text->token != 'a')
    return false;
  while (is_nested && text->depth >= depth && json_text_next(text) == JSON_TEXT_WHOLE)
    ;
  *out = (struct json_member){.text = text->bytes + start, .length = text->at - start};
  return true;
}

static bool is_name(struct json_member string, const char *name) {
  size_t length = strlen(name);
  if (memchr(string.text, '\\', string.length) == NULL)
    return string.length == length + 2 && memcmp(string.text + 1, name, length) == 0;
  struct error error;
  cJSON *value = json_tree_parse(string.text, string.length, &error);
  bool is_same = cJSON_IsString(value) && strcmp(value->valuestring, name) == 0;
  cJSON_Delete(value);
  return is_same;
}

bool json_member_find(const char *json, size_t length, const char *name, struct json_member *out) {
  struct json_text text = {.bytes = json, .length = length};
  while (json_text_next(&text) == JSON_TEXT_BROKEN)
    ; /* a byte order mark */
  if (text.token != '{')
    return false;
  while (json_text_next(&text) == JSON_TEXT_WHOLE && text.depth > 0) {
    struct json_member key;
    if (text.token == ',')
      continue;
    if (text.token != '"' || !read_value(&text, &key) || json_text_next(&text) != JSON_TEXT_WHOLE ||
        text.token != ':' || json_text_next(&text) != JSON_TEXT_WHOLE || !read_value(&text, out))
      return false;
    if (is_name(key, name))
      return true;
  }
  return false;
}

bool json_element_next(struct json_text *array, struct json_member *out) {
  do {
    if (json_text_next(array) == JSON_TEXT_SHORT)
      return false;
  } while (array->token == ',' || (array->token == '[' && array->depth == 1) ||
           array->token == '?');
  return read_value(array, out);
}
