#include "wire/json_member.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/json_string.h"
#include "base/utf8.h"
#include "wire/json_guard.h"

static bool is_space(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static const char *skip_space(const char *at, const char *end) {
  while (at < end && is_space(*at))
    at++;
  return at;
}

/* Where the value begins: cJSON passes over a byte order mark, too. */
static const char *begin_of(const char *json, const char *end) {
  size_t marked = utf8_is_marked(json, (size_t)(end - json)) ? UTF8_MARK_LENGTH : 0;
  return skip_space(json + marked, end);
}

/* From an opening quote to after the closing one, or to the end of the text. */
static const char *skip_string(const char *at, const char *end) {
  at++;
  while (at < end) {
    at += json_string_plain(at, (size_t)(end - at));
    if (at == end)
      break;
    if (*at == '"')
      return at + 1;
    at += *at == '\\' && end - at > 1 ? 2 : 1;
  }
  return end;
}

/* From its first byte to after its last one. */
static const char *skip_value(const char *at, const char *end) {
  size_t depth = 0;
  while (at < end) {
    if (*at == '"') {
      at = skip_string(at, end);
    } else if (*at == '{' || *at == '[') {
      depth++;
      at++;
    } else if (*at == '}' || *at == ']') {
      if (depth == 0)
        return at; /* the object's own: a scalar ends before it */
      depth--;
      at++;
    } else if (depth == 0) {
      while (at < end && !is_space(*at) && strchr(",]}[{\"", *at) == NULL)
        at++;
    } else {
      at++;
    }
    if (depth == 0)
      return at;
  }
  return end;
}

/* Whether this string, quotes included, is the name. */
static bool is_name(const char *string, size_t length, const char *name) {
  size_t name_length = strlen(name);
  if (memchr(string, '\\', length) == NULL)
    return length == name_length + 2 && memcmp(string + 1, name, name_length) == 0;
  if (length > 6 * name_length + 2) /* six bytes for each are the most that an escape takes */
    return false;
  char *marked = json_guard_mark_nul(string, length, &length);
  cJSON *value = cJSON_ParseWithLength(marked, length);
  bool same = cJSON_IsString(value) && strcmp(value->valuestring, name) == 0;
  cJSON_Delete(value);
  free(marked);
  return same;
}

bool json_member_find(const char *json, size_t length, const char *name, struct json_member *out) {
  const char *end = json + length;
  const char *at = begin_of(json, end);
  if (at == end || *at != '{')
    return false;
  while ((at = skip_space(at + 1, end)) < end && *at == '"') {
    const char *key = at;
    const char *key_end = skip_string(at, end);
    at = skip_space(key_end, end);
    if (at == end || *at != ':')
      return false;
    const char *value = skip_space(at + 1, end);
    at = skip_value(value, end);
    if (is_name(key, (size_t)(key_end - key), name)) {
      *out = (struct json_member){.text = value, .length = (size_t)(at - value)};
      return at > value;
    }
    at = skip_space(at, end);
    if (at == end || *at != ',')
      return false;
  }
  return false;
}

bool json_element_next(const char **at, const char *end, struct json_member *out) {
  const char *value = begin_of(*at, end);
  if (value < end && (*value == '[' || *value == ','))
    value = skip_space(value + 1, end);
  *at = skip_value(value, end);
  *out = (struct json_member){.text = value, .length = (size_t)(*at - value)};
  return *at > value;
}
