#include "client/redis/json_field.h"

#include <string.h>

#include "base/memory.h"

static const char *find_text(const cJSON *object, const char *name) {
  return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

const char *json_field_text(const cJSON *object, const char *name) {
  const char *text = find_text(object, name);
  return text != NULL ? text : "";
}

double json_field_number(const cJSON *object, const char *name, double fallback) {
  const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNumber(number) ? number->valuedouble : fallback;
}

bool json_field_is_true(const cJSON *object, const char *name) {
  return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, name));
}

char *json_field_copy(const cJSON *object, const char *name) {
  const char *text = find_text(object, name);
  return text != NULL ? memory_copy(text, strlen(text)) : NULL;
}
