#include "agent/tools/argument.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "wire/json.h"
#include "wire/step_field.h"

/* "edits[12].old_string"; longer names are cut. */
#define PATH_SIZE 80

cJSON *argument_get(const cJSON *arguments, const char *name) {
  cJSON *value = cJSON_GetObjectItemCaseSensitive(arguments, name);
  return cJSON_IsNull(value) ? NULL : value;
}

static unsigned default_timeout(const struct argument_limits *limits) {
  return limits->timeout_default < limits->timeout_maximum ? limits->timeout_default
                                                           : limits->timeout_maximum;
}

unsigned argument_timeout(const cJSON *arguments, const struct argument_limits *limits) {
  const cJSON *timeout = argument_get(arguments, "timeout");
  if (timeout == NULL)
    return default_timeout(limits);
  double seconds = timeout->valuedouble;
  if (seconds < 1)
    return 1;
  return seconds < limits->timeout_maximum ? (unsigned)seconds : limits->timeout_maximum;
}

/* The name of each type in a schema, the check of a value, and what is expected if that fails. */
static const struct {
  char schema[sizeof "integer"];
  cJSON_bool (*is)(const cJSON *value);
  const char *expected;
} types[] = {
    [ARGUMENT_TEXT] = {"string", cJSON_IsString, "a string"},
    [ARGUMENT_BYTES] = {"string", cJSON_IsString, "a string"},
    [ARGUMENT_INTEGER] = {"integer", cJSON_IsNumber, "an integer"},
    [ARGUMENT_TIMEOUT] = {"integer", cJSON_IsNumber, "an integer"},
    [ARGUMENT_FLAG] = {"boolean", cJSON_IsBool, "true or false"},
    [ARGUMENT_CHOICE] = {"string", cJSON_IsString, NULL}, /* expected_choice lists them */
    [ARGUMENT_TEXTS] = {"array", cJSON_IsArray, "an array of strings"},
    [ARGUMENT_OBJECTS] = {"array", cJSON_IsArray, "an array of objects"},
};

/* --- schema --- */

/* The schema lacks additionalProperties, minimum, maximum and minItems, which some model APIs
   reject. argument_table_accept checks them. */

static void add_choices(struct buffer *out, const struct argument *self) {
  for (size_t i = 0; self->choices[i][0] != '\0'; i++)
    buffer_add_format(out, "%s\"%s\"", i == 0 ? ",\"enum\":[" : ",", self->choices[i]);
  buffer_add_string(out, "]");
}

static void add_schema(const struct argument *self, const struct argument_limits *limits,
                       struct buffer *out) {
  buffer_add_format(out, "\"%s\":{\"type\":\"%s\",\"description\":", self->name,
                    types[self->type].schema);
  buffer_add_json(out, self->description, strlen(self->description));
  if (self->type == ARGUMENT_TIMEOUT) {
    out->length--; /* within the quotes */
    buffer_add_format(out, " (default %u, at most %u)\"", default_timeout(limits),
                      limits->timeout_maximum);
  } else if (self->type == ARGUMENT_CHOICE) {
    add_choices(out, self);
  } else if (self->type == ARGUMENT_TEXTS) {
    buffer_add_string(out, ",\"items\":{\"type\":\"string\"}");
  } else if (self->type == ARGUMENT_OBJECTS) {
    buffer_add_string(out, ",\"items\":");
    argument_table_schema(self->element, limits, out);
  }
  buffer_add_string(out, "}");
}

void argument_table_schema(const struct argument_table *self, const struct argument_limits *limits,
                           struct buffer *out) {
  buffer_add_string(out, "{\"type\":\"object\",\"properties\":{");
  for (size_t i = 0; i < self->count; i++) {
    buffer_add_string(out, i > 0 ? "," : "");
    add_schema(&self->rows[i], limits, out);
  }
  buffer_add_string(out, "},\"required\":[");
  const char *separator = "";
  for (size_t i = 0; i < self->count; i++) {
    if (!self->rows[i].required)
      continue;
    buffer_add_format(out, "%s\"%s\"", separator, self->rows[i].name);
    separator = ",";
  }
  buffer_add_string(out, "]}");
}

/* --- texts with the JSON of other values --- */

/* Python writes True and False. */
static cJSON *parse_text(const struct argument *self, const char *text, struct error *error) {
  bool is_true = strcasecmp(text, "true") == 0;
  if (self->type == ARGUMENT_FLAG && (is_true || strcasecmp(text, "false") == 0))
    return cJSON_CreateBool(is_true);
  return json_tree_parse(text, strlen(text), error);
}

/* Returns -1, and the parser's reason, for a malformed array in a text. */
static int accept_text(const struct argument *self, const char *path, cJSON *value,
                       struct error *error) {
  struct error reason;
  if (types[self->type].is == cJSON_IsString || !cJSON_IsString(value))
    return 0;
  const char *text = value->valuestring + strspn(value->valuestring, " \t\r\n");
  cJSON *meant = parse_text(self, value->valuestring, &reason);
  if (meant == NULL && *text == '[')
    return error_set(error, "%s: %s", path, reason.text);
  if (meant != NULL && types[self->type].is(meant)) {
    free(value->valuestring);
    value->valuestring = NULL;
    value->type = meant->type;
    value->valuedouble = meant->valuedouble;
    value->child = meant->child;
    meant->child = NULL;
  }
  cJSON_Delete(meant);
  return 0;
}

/* --- check --- */

/* The following functions return what was expected, or NULL if the value is valid. */
static const char *expected_text(const cJSON *value, bool may_be_empty) {
  const char *text = cJSON_GetStringValue(value);
  if (text == NULL)
    return "a string";
  if (strstr(text, JSON_TREE_NUL) != NULL)
    return "a string without NUL";
  return may_be_empty || text[0] != '\0' ? NULL : "a non-empty string";
}

#define EXPECTED_SIZE 160

static const char *expected_integer(const struct argument *self,
                                    const struct argument_limits *limits, const cJSON *value,
                                    char text[EXPECTED_SIZE]) {
  double number = value->valuedouble;
  bool is_timeout = self->type == ARGUMENT_TIMEOUT;
  unsigned minimum = is_timeout ? 1 : self->minimum;
  unsigned maximum = is_timeout ? limits->timeout_maximum : self->maximum;
  if (!(number >= -JSON_EXACT_MAX && number <= JSON_EXACT_MAX) || number != (double)(int64_t)number)
    return "an integer";
  if ((is_timeout && limits->clamps_timeout) ||
      (number >= minimum && (maximum == 0 || number <= maximum)))
    return NULL;
  if (maximum == 0)
    (void)snprintf(text, EXPECTED_SIZE, "an integer of at least %u", minimum);
  else
    (void)snprintf(text, EXPECTED_SIZE, "an integer from %u to %u", minimum, maximum);
  return text;
}

static void add_name(char names[EXPECTED_SIZE], const char *separator, const char *name) {
  size_t used = strlen(names);
  (void)snprintf(names + used, EXPECTED_SIZE - used, "%s%s", used > 0 ? separator : "", name);
}

/* Returns the index of the choice, or the number of choices if the value is none of them. */
static size_t find_choice(const struct argument *self, const cJSON *value) {
  const char *text = cJSON_GetStringValue(value);
  size_t i = 0;
  while (self->choices[i][0] != '\0' && (text == NULL || strcmp(self->choices[i], text) != 0))
    i++;
  return i;
}

static const char *expected_choice(const struct argument *self, const cJSON *value,
                                   char text[EXPECTED_SIZE]) {
  if (self->choices[find_choice(self, value)][0] != '\0')
    return NULL;
  text[0] = '\0';
  for (size_t i = 0; self->choices[i][0] != '\0'; i++)
    add_name(text, self->choices[i + 1][0] == '\0' ? " or " : ", ", self->choices[i]);
  return text;
}

static int expect(const char *expected, const char *path, struct error *error) {
  return expected != NULL ? error_set(error, "%s: expected %s", path, expected) : 0;
}

static int check_array(const struct argument *self, const char *path,
                       const struct argument_limits *limits, cJSON *value, struct error *error) {
  bool texts = self->type == ARGUMENT_TEXTS;
  if (!texts && value->child == NULL)
    return expect("at least one", path, error);
  size_t index = 0;
  for (cJSON *item = value->child; item != NULL; item = item->next) {
    char below[PATH_SIZE + 24];
    (void)snprintf(below, sizeof below, "%s[%zu]", path, index++);
    if (texts ? expect(expected_text(item, true), below, error) != 0
              : argument_table_accept(self->element, path, below, limits, item, error) != 0)
      return -1;
  }
  return 0;
}

static int check_value(const struct argument *self, const char *path,
                       const struct argument_limits *limits, cJSON *value, struct error *error) {
  char text[EXPECTED_SIZE];
  if (types[self->type].expected != NULL && !types[self->type].is(value))
    return expect(types[self->type].expected, path, error);
  switch (self->type) {
  case ARGUMENT_TEXT:
    return expect(expected_text(value, !self->required), path, error);
  case ARGUMENT_INTEGER:
  case ARGUMENT_TIMEOUT:
    return expect(expected_integer(self, limits, value, text), path, error);
  case ARGUMENT_CHOICE:
    return expect(expected_choice(self, value, text), path, error);
  case ARGUMENT_TEXTS:
  case ARGUMENT_OBJECTS:
    return check_array(self, path, limits, value, error);
  default:
    return 0;
  }
}

static int check_known(const struct argument_table *self, const char *owner, const char *path,
                       const cJSON *object, struct error *error) {
  for (const cJSON *item = object->child; item != NULL; item = item->next) {
    size_t i = 0;
    while (i < self->count && strcmp(self->rows[i].name, item->string) != 0)
      i++;
    if (i < self->count)
      continue;
    char names[EXPECTED_SIZE] = "";
    for (i = 0; i < self->count; i++)
      add_name(names, ", ", self->rows[i].name);
    return error_set(error, "unknown argument '%s%s%.40s' (%s takes %s)", path,
                     path[0] != '\0' ? "." : "", item->string, owner, names);
  }
  return 0;
}

/* Makes a checked value the field of a step. */
static void translate(const struct argument *self, cJSON *value) {
  if (self->type == ARGUMENT_CHOICE) {
    value->valuedouble = (double)find_choice(self, value);
    value->type = cJSON_Number;
  } else if (self->type == ARGUMENT_INTEGER && value->valuedouble > INT32_MAX) {
    value->valuedouble = INT32_MAX;
  }
  if (self->wire[0] == '\0')
    return;
  free(value->string);
  value->string = memory_copy(self->wire, strlen(self->wire));
}

int argument_table_accept(const struct argument_table *self, const char *owner, const char *path,
                          const struct argument_limits *limits, cJSON *object,
                          struct error *error) {
  if (object != NULL && !cJSON_IsObject(object))
    return expect("an object", path, error);
  if (object != NULL && (check_known(self, owner, path, object, error) != 0 ||
                         step_field_names_unique(object, path, error) != 0))
    return -1;
  for (size_t i = 0; i < self->count; i++) {
    const struct argument *row = &self->rows[i];
    cJSON *value = argument_get(object, row->name);
    char name[PATH_SIZE];
    (void)snprintf(name, sizeof name, "%s%s%s", path, path[0] != '\0' ? "." : "", row->name);
    if (value == NULL && row->required)
      return error_set(error, "%s: required", name);
    if (value == NULL)
      continue;
    if (accept_text(row, name, value, error) != 0 ||
        check_value(row, name, limits, value, error) != 0)
      return -1;
    translate(row, value);
  }
  return 0;
}
