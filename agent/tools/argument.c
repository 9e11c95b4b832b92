#include "agent/tools/argument.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "wire/json_tree.h"
#include "wire/step_field.h"

/* The largest whole number up to which a double tells all apart. */
#define INTEGER_MAX 9007199254740992.0

/* "edits[12].old_string"; longer names are cut. */
#define PATH_SIZE 80

cJSON *argument_get(const cJSON *arguments, const char *name) {
  cJSON *value = cJSON_GetObjectItemCaseSensitive(arguments, name);
  return cJSON_IsNull(value) ? NULL : value;
}

double argument_integer(const cJSON *arguments, const char *name) {
  const cJSON *value = argument_get(arguments, name);
  return value != NULL ? value->valuedouble : 0;
}

/* --- schema --- */

static void add_choices(struct buffer *out, const struct argument_choice *choices) {
  buffer_add_string(out, ",\"enum\":[");
  for (const struct argument_choice *choice = choices; choice->name[0] != '\0'; choice++) {
    buffer_add_string(out, choice == choices ? "" : ",");
    buffer_add_json(out, choice->name, strlen(choice->name));
  }
  buffer_add_string(out, "]");
}

static void add_range(struct buffer *out, unsigned minimum, unsigned maximum) {
  buffer_add_format(out, ",\"minimum\":%u", minimum);
  if (maximum > 0)
    buffer_add_format(out, ",\"maximum\":%u", maximum);
}

static const char type_schemas[][sizeof "integer"] = {
    [ARGUMENT_TEXT] = "string",     [ARGUMENT_BYTES] = "string",  [ARGUMENT_INTEGER] = "integer",
    [ARGUMENT_TIMEOUT] = "integer", [ARGUMENT_FLAG] = "boolean",  [ARGUMENT_CHOICE] = "string",
    [ARGUMENT_TEXTS] = "array",     [ARGUMENT_OBJECTS] = "array",
};

static void add_schema(const struct argument *self, const struct argument_limits *limits,
                       struct buffer *out) {
  buffer_add_json(out, self->name, strlen(self->name));
  buffer_add_format(out, ":{\"type\":\"%s\",\"description\":", type_schemas[self->type]);
  buffer_add_json(out, self->description, strlen(self->description));
  if (self->type == ARGUMENT_TIMEOUT) {
    out->length--; /* within the quotes */
    buffer_add_format(out, " (default %u)\"", limits->timeout_default);
    add_range(out, 1, limits->timeout_maximum);
  } else if (self->type == ARGUMENT_INTEGER) {
    add_range(out, self->minimum, self->maximum);
  } else if (self->type == ARGUMENT_CHOICE) {
    add_choices(out, self->choices);
  } else if (self->type == ARGUMENT_TEXTS) {
    buffer_add_string(out, ",\"items\":{\"type\":\"string\"}");
  } else if (self->type == ARGUMENT_OBJECTS) {
    buffer_add_string(out, ",\"minItems\":1,\"items\":");
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
    buffer_add_string(out, separator);
    buffer_add_json(out, self->rows[i].name, strlen(self->rows[i].name));
    separator = ",";
  }
  buffer_add_string(out, "],\"additionalProperties\":false}");
}

/* --- check --- */

static int check_table(const struct argument_table *self, const char *owner, const char *path,
                       const struct argument_limits *limits, const cJSON *object,
                       struct error *error);

static int check_text(const char *path, const cJSON *value, bool empty, struct error *error) {
  if (!cJSON_IsString(value))
    return error_set(error, "%s: expected a string", path);
  if (strstr(value->valuestring, JSON_TREE_NUL) != NULL)
    return error_set(error, "%s: expected a string without NUL", path);
  if (!empty && value->valuestring[0] == '\0')
    return error_set(error, "%s: expected a non-empty string", path);
  return 0;
}

static int check_integer(const struct argument *self, const char *path,
                         const struct argument_limits *limits, const cJSON *value,
                         struct error *error) {
  double number = cJSON_IsNumber(value) ? value->valuedouble : 0.5;
  if (!(number >= -INTEGER_MAX && number <= INTEGER_MAX) || number != (double)(int64_t)number)
    return error_set(error, "%s: expected an integer", path);
  bool is_timeout = self->type == ARGUMENT_TIMEOUT;
  unsigned minimum = is_timeout ? 1 : self->minimum;
  unsigned maximum = is_timeout ? limits->timeout_maximum : self->maximum;
  if (is_timeout && limits->clamps_timeout)
    return 0;
  if (maximum == 0)
    return number >= minimum
               ? 0
               : error_set(error, "%s: expected an integer of at least %u", path, minimum);
  if (number < minimum || number > maximum)
    return error_set(error, "%s: expected an integer from %u to %u", path, minimum, maximum);
  return 0;
}

static void add_name(char *names, size_t size, const char *separator, const char *name) {
  size_t used = strlen(names);
  (void)snprintf(names + used, size - used, "%s%s", used > 0 ? separator : "", name);
}

static const struct argument_choice *find_choice(const struct argument *self, const cJSON *value) {
  for (const struct argument_choice *choice = self->choices; choice->name[0] != '\0'; choice++)
    if (cJSON_IsString(value) && strcmp(choice->name, value->valuestring) == 0)
      return choice;
  return NULL;
}

static int check_choice(const struct argument *self, const char *path, const cJSON *value,
                        struct error *error) {
  if (find_choice(self, value) != NULL)
    return 0;
  char names[128] = "";
  for (const struct argument_choice *choice = self->choices; choice->name[0] != '\0'; choice++)
    add_name(names, sizeof names, choice[1].name[0] == '\0' ? " or " : ", ", choice->name);
  return error_set(error, "%s: expected %s", path, names);
}

static int check_array(const struct argument *self, const char *path,
                       const struct argument_limits *limits, const cJSON *value,
                       struct error *error) {
  bool texts = self->type == ARGUMENT_TEXTS;
  if (!cJSON_IsArray(value))
    return error_set(error, "%s: expected an array of %s", path, texts ? "strings" : "objects");
  if (!texts && value->child == NULL)
    return error_set(error, "%s: expected at least one", path);
  size_t index = 0;
  for (const cJSON *item = value->child; item != NULL; item = item->next) {
    char below[PATH_SIZE + 24];
    (void)snprintf(below, sizeof below, "%s[%zu]", path, index++);
    if (texts ? check_text(below, item, true, error) != 0
              : check_table(self->element, path, below, limits, item, error) != 0)
      return -1;
  }
  return 0;
}

static int check_value(const struct argument *self, const char *path,
                       const struct argument_limits *limits, const cJSON *value,
                       struct error *error) {
  switch (self->type) {
  case ARGUMENT_TEXT:
    return check_text(path, value, !self->required, error);
  case ARGUMENT_BYTES:
    return cJSON_IsString(value) ? 0 : error_set(error, "%s: expected a string", path);
  case ARGUMENT_INTEGER:
  case ARGUMENT_TIMEOUT:
    return check_integer(self, path, limits, value, error);
  case ARGUMENT_FLAG:
    return cJSON_IsBool(value) ? 0 : error_set(error, "%s: expected true or false", path);
  case ARGUMENT_CHOICE:
    return check_choice(self, path, value, error);
  case ARGUMENT_TEXTS:
  case ARGUMENT_OBJECTS:
    return check_array(self, path, limits, value, error);
  }
  return -1;
}

static int check_known(const struct argument_table *self, const char *owner, const char *path,
                       const cJSON *object, struct error *error) {
  for (const cJSON *item = object->child; item != NULL; item = item->next) {
    size_t i = 0;
    while (i < self->count && strcmp(self->rows[i].name, item->string) != 0)
      i++;
    if (i < self->count)
      continue;
    char names[160] = "";
    for (i = 0; i < self->count; i++)
      add_name(names, sizeof names, ", ", self->rows[i].name);
    return error_set(error, "unknown argument '%s%s%.40s' (%s takes %s)", path,
                     path[0] != '\0' ? "." : "", item->string, owner, names);
  }
  return 0;
}

static int check_table(const struct argument_table *self, const char *owner, const char *path,
                       const struct argument_limits *limits, const cJSON *object,
                       struct error *error) {
  if (object != NULL && !cJSON_IsObject(object))
    return error_set(error, "%s: expected an object", path);
  if (object != NULL && (check_known(self, owner, path, object, error) != 0 ||
                         step_field_names_unique(object, path, error) != 0))
    return -1;
  for (size_t i = 0; i < self->count; i++) {
    const struct argument *row = &self->rows[i];
    const cJSON *value = argument_get(object, row->name);
    char name[PATH_SIZE];
    (void)snprintf(name, sizeof name, "%s%s%s", path, path[0] != '\0' ? "." : "", row->name);
    if (value == NULL && row->required)
      return error_set(error, "%s: required", name);
    if (value != NULL && check_value(row, name, limits, value, error) != 0)
      return -1;
  }
  return 0;
}

int argument_table_check(const struct argument_table *self, const char *owner,
                         const struct argument_limits *limits, const cJSON *arguments,
                         struct error *error) {
  return check_table(self, owner, "", limits, arguments, error);
}

/* --- what a step gets --- */

static const struct argument *row_of(const struct argument_table *self, const char *field) {
  for (size_t i = 0; i < self->count; i++)
    if (strcmp(self->rows[i].wire, field) == 0)
      return &self->rows[i];
  return NULL;
}

/* Gives the members of each object the names that they have in the step. */
static void rename_members(const struct argument_table *self, const cJSON *objects) {
  for (cJSON *object = objects->child; object != NULL; object = object->next)
    for (size_t i = 0; i < self->count; i++) {
      cJSON *member = argument_get(object, self->rows[i].name);
      if (member == NULL)
        continue;
      free(member->string);
      member->string = memory_copy(self->rows[i].wire, strlen(self->rows[i].wire));
    }
}

cJSON *argument_table_value(const struct argument_table *self, const char *field, cJSON *arguments,
                            cJSON *spare) {
  const struct argument *row = row_of(self, field);
  cJSON *value = row != NULL ? argument_get(arguments, row->name) : NULL;
  *spare = (cJSON){0};
  if (value == NULL && row != NULL && row->has_fallback) {
    spare->type = row->type == ARGUMENT_INTEGER ? cJSON_Number
                  : row->fallback != 0          ? cJSON_True
                                                : cJSON_False;
    spare->valuedouble = row->fallback;
    return spare;
  }
  if (value != NULL && row->type == ARGUMENT_CHOICE) {
    const struct argument_choice *choice = find_choice(row, value);
    CHECK(choice != NULL);
    spare->type = cJSON_String;
    spare->valuestring = (char *)(uintptr_t)choice->wire;
    return spare;
  }
  if (value != NULL && row->type == ARGUMENT_OBJECTS)
    rename_members(row->element, value);
  return value;
}
