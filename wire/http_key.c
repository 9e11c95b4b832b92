#include "wire/http_key.h"

#include <string.h>

int http_key_check(const char *key, struct error *error) {
  const size_t length = strlen(key);
  for (size_t i = 0; i < length; i++)
    if (key[i] < '!' || key[i] > '~')
      return error_set(error, "a key has only visible ASCII characters, and no spaces");
  if (length < HTTP_KEY_MIN || length > HTTP_KEY_MAX)
    return error_set(error, "a key has %d to %d characters", HTTP_KEY_MIN, HTTP_KEY_MAX);
  return 0;
}
