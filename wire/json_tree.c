#include "wire/json_tree.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/swar.h"

#define ESCAPED_NUL "\\u0000"
#define ESCAPED_LENGTH (sizeof ESCAPED_NUL - 1)
#define MARK_LENGTH (sizeof JSON_TREE_NUL - 1)
static_assert(MARK_LENGTH <= ESCAPED_LENGTH, "a marked copy is no longer than its text");

static void explain_fault(const struct json_text *text, enum json_text_fault fault,
                          struct error *error) {
  static const char *const faults[] = {
      [JSON_TEXT_UTF8] = "expected UTF-8, broken",
      [JSON_TEXT_HEX] = "expected four hexadecimal digits after \\u",
      [JSON_TEXT_NUMBER] = "expected a JSON number",
      [JSON_TEXT_DEEP] = "expected at most 64 levels of nesting, got more"};
  static_assert(JSON_TEXT_DEPTH_MAX == 64, "as it says");
  if (fault == JSON_TEXT_MANY)
    (void)error_set(error, "expected at most %d values, got more", JSON_TEXT_VALUES_MAX);
  else if (fault == JSON_TEXT_CONTROL)
    (void)error_set(error, "expected JSON, got a raw control character 0x%02x at byte %zu",
                    (unsigned)text->bytes[text->part], text->part);
  else
    (void)error_set(error, "%s at byte %zu", faults[fault], text->part);
}

/* A copy with the mark, raw, in place of each escaped NUL. */
static char *mark_nul(const char *text, size_t *length) {
  const char *end = text + *length, *escape;
  char *copy = memory_allocate(*length), *out = copy;
  while ((escape = memchr(text, '\\', (size_t)(end - text))) != NULL) {
    size_t left = (size_t)(end - escape);
    bool is_nul = left >= ESCAPED_LENGTH && memcmp(escape, ESCAPED_NUL, ESCAPED_LENGTH) == 0;
    out = swar_copy(out, text, (size_t)(escape - text));
    /* The byte after a backslash is part of the escape: it may itself be a backslash. */
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

/* The offset in the text of one in its marked copy. */
static size_t text_offset(const char *copy, size_t offset) {
  size_t marks = 0;
  for (size_t i = 0; i < offset; i++)
    marks += copy[i] == JSON_TREE_NUL[0];
  return offset + marks * (ESCAPED_LENGTH - MARK_LENGTH);
}

/* Of cJSON exhausted memory and bad JSON look alike; malloc(3) tells them apart. */
static cJSON *parse(const char *text, size_t length, const char **end) {
  errno = 0;
  return cJSON_ParseWithLengthOpts(text, length, end, false);
}

/* Nothing but white space may come after the value. */
static cJSON *parse_all(const char *text, size_t length, struct error *error) {
  const char *end = text;
  cJSON *tree = parse(text, length, &end);
  struct json_text rest = {.bytes = text, .length = length, .at = (size_t)(end - text)};
  (void)json_text_next(&rest);
  if (tree == NULL && errno == ENOMEM)
    (void)error_set(error, "there is not enough memory for its %zu bytes", length);
  else if (tree == NULL)
    (void)error_set(error, "expected JSON, got what is broken or cut off near byte %zu",
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
  enum json_text_fault fault = json_text_check(&checked);
  *values = checked.values;
  if (fault != JSON_TEXT_FINE) {
    explain_fault(&checked, fault, error);
    return NULL;
  }
  if (!checked.has_nul)
    return parse_all(text, length, error);
  char *marked = mark_nul(text, &length);
  cJSON *tree = parse_all(marked, length, error);
  free(marked);
  return tree;
}

cJSON *json_tree_parse(const char *text, size_t length, struct error *error) {
  size_t values;
  return json_tree_parse_counted(text, length, &values, error);
}

cJSON *json_tree_parse_own(const char *text, size_t length, const char **end) {
  cJSON *tree = parse(text, length, end);
  if (tree == NULL && errno == ENOMEM)
    memory_exhausted("tree of a message");
  return tree;
}

/* --- members as they stand --- */

/* Moves to the end of the value that the token begins; false when it begins none. */
static bool take_value(struct json_text *text, struct json_member *out) {
  size_t start = text->start, depth = text->depth;
  bool is_nested = text->token == '{' || text->token == '[';
  if (!is_nested && text->token != '"' && text->token != '0' && text->token != 'a')
    return false;
  while (is_nested && text->depth >= depth && json_text_next(text) == JSON_TEXT_WHOLE)
    ;
  *out = (struct json_member){.text = text->bytes + start, .length = text->at - start};
  return true;
}

/* Whether this string, quotes included, is the name. */
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
    if (text.token != '"' || !take_value(&text, &key) || json_text_next(&text) != JSON_TEXT_WHOLE ||
        text.token != ':' || json_text_next(&text) != JSON_TEXT_WHOLE || !take_value(&text, out))
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
  return take_value(array, out);
}
