#include "wire/json_member.h"

#include <string.h>

#include "wire/json_tree.h"

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
