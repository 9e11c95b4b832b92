#include "client/redis/json_field.h"

const char *json_field_text(const cJSON *object, const char *name, const char *fallback) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
  return text != NULL ? text : fallback;
}

double json_field_number(const cJSON *object, const char *name, double fallback) {
  const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNumber(number) ? number->valuedouble : fallback;
}

bool json_field_is_true(const cJSON *object, const char *name) {
  return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, name));
}
