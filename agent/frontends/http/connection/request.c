#include "agent/frontends/http/connection/request.h"

#include <string.h>
#include <strings.h>

const char *http_request_field(const struct http_request *self, const char *name) {
  for (size_t i = 0; i < self->field_count; i++)
    if (strcasecmp(self->fields[i].name, name) == 0)
      return self->fields[i].value;
  return NULL;
}

void http_request_erase_field(struct http_request *self, const char *name) {
  char *value = (char *)(uintptr_t)http_request_field(self, name);
  if (value != NULL)
    explicit_bzero(value, strlen(value));
}

static bool is_value(const char *text, size_t length, const char *value) {
  return strlen(value) == length && strncasecmp(text, value, length) == 0;
}

/* The length of a list's element without its parameters and the whitespace around it; `*element` is
   moved to its beginning. */
static size_t trim_element(const char **element, size_t length) {
  const char *at = *element + strspn(*element, " \t");
  size_t rest = at < *element + length ? (size_t)(*element + length - at) : 0;
  const char *parameters = memchr(at, ';', rest);
  if (parameters != NULL)
    rest = (size_t)(parameters - at);
  while (rest > 0 && (at[rest - 1] == ' ' || at[rest - 1] == '\t'))
    rest--;
  *element = at;
  return rest;
}

static bool has_element(const char *list, const char *value) {
  for (;;) {
    const size_t length = strcspn(list, ",");
    const char *element = list;
    const size_t trimmed = trim_element(&element, length);
    if (is_value(element, trimmed, value))
      return true;
    if (list[length] == '\0')
      return false;
    list += length + 1;
  }
}

bool http_request_lists(const struct http_request *self, const char *name, const char *value) {
  for (size_t i = 0; i < self->field_count; i++)
    if (strcasecmp(self->fields[i].name, name) == 0 && has_element(self->fields[i].value, value))
      return true;
  return false;
}

bool http_request_has_type(const struct http_request *self, const char *media_type) {
  const char *type = http_request_field(self, "Content-Type");
  if (type == NULL)
    return false;
  const size_t length = trim_element(&type, strlen(type));
  return is_value(type, length, media_type);
}

enum http_parameter http_number_read(const char *text, size_t length, uint64_t *number) {
  uint64_t value = 0;
  for (size_t i = 0; i < length; i++) {
    if (text[i] < '0' || text[i] > '9')
      return HTTP_PARAMETER_INVALID;
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
      value = UINT64_MAX;
  }
  *number = value;
  return length > 0 ? HTTP_PARAMETER_NUMBER : HTTP_PARAMETER_INVALID;
}

enum http_parameter http_request_parameter(const struct http_request *self, const char *name,
                                           uint64_t *number) {
  const size_t name_length = strlen(name);
  const char *at = self->query;
  while (*at != '\0') {
    const size_t length = strcspn(at, "&");
    if (length > name_length && strncmp(at, name, name_length) == 0 && at[name_length] == '=')
      return http_number_read(at + name_length + 1, length - name_length - 1, number);
    if (length == name_length && strncmp(at, name, name_length) == 0)
      return HTTP_PARAMETER_INVALID;
    at += length + (at[length] == '&');
  }
  return HTTP_PARAMETER_ABSENT;
}
