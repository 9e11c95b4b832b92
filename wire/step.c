#include "wire/step.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cjson/cJSON.h>

#include "wire/json_guard.h"
#include "wire/memory.h"
#include "wire/step_field.h"

static const char *const kind_names[] = {
    [STEP_RUN] = "run",
    [STEP_SHUTDOWN] = "shutdown",
    [STEP_CANCEL] = "cancel",
};

enum { KIND_COUNT = sizeof kind_names / sizeof kind_names[0] };

static int read_kind(const struct step_field *self, cJSON *value, void *place, struct error *error);

#define RUN (1u << STEP_RUN)
#define EVERY_KIND (~0u)

/* Read in this order: the kind decides which of the rows behind it count. */
static const struct step_field fields[] = {
    {.name = "stepId",
     .kinds = EVERY_KIND,
     .read = step_field_text,
     .offset = offsetof(struct step, step_id),
     .required = true,
     .minimum = 1,
     .maximum = STEP_ID_MAX},
    {.name = "schemaVersion",
     .kinds = EVERY_KIND,
     .read = step_field_integer,
     .offset = offsetof(struct step, schema_version),
     .minimum = 1,
     .maximum = 1,
     .fallback = 1},
    {.name = "kind", .kinds = EVERY_KIND, .read = read_kind, .offset = offsetof(struct step, kind)},
    {.name = "command",
     .kinds = RUN,
     .read = step_field_text,
     .offset = offsetof(struct step, command),
     .required = true,
     .minimum = 1},
    {.name = "args", .kinds = RUN, .read = step_field_texts, .offset = offsetof(struct step, args)},
    {.name = "workingDirectory",
     .kinds = RUN,
     .read = step_field_text,
     .offset = offsetof(struct step, working_directory)},
    {.name = "env", .kinds = RUN, .read = step_field_env, .offset = offsetof(struct step, env)},
    {.name = "timeoutSeconds",
     .kinds = RUN,
     .read = step_field_integer,
     .offset = offsetof(struct step, timeout_seconds),
     .minimum = 1,
     .maximum = STEP_TIMEOUT_MAX_SECONDS,
     .fallback = STEP_TIMEOUT_DEFAULT_SECONDS},
};

static int read_kind(const struct step_field *self, cJSON *value, void *place,
                     struct error *error) {
  enum step_kind *kind = place;
  *kind = STEP_RUN;
  if (value == NULL)
    return 0;
  char expected[128] = "one of ";
  for (int i = 0; i < KIND_COUNT; i++) {
    if (cJSON_IsString(value) && strcasecmp(value->valuestring, kind_names[i]) == 0) {
      *kind = (enum step_kind)i;
      return 0;
    }
    size_t length = strlen(expected);
    (void)snprintf(expected + length, sizeof expected - length, "%s%s", i > 0 ? ", " : "",
                   kind_names[i]);
  }
  if (!cJSON_IsString(value))
    return step_field_refuse(self, expected, value, error);
  char shown[STEP_FIELD_SHOWN_SIZE];
  step_field_show(shown, value->valuestring, strlen(value->valuestring));
  return error_set(error, "%s: expected %s, got \"%s\"", self->name, expected, shown);
}

/* cJSON cannot tell a want of memory from bad JSON: with this it has none to tell. */
static cJSON *parse(const char *text, size_t length, const char **end) {
  cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = memory_allocate, .free_fn = free});
  return cJSON_ParseWithLengthOpts(text, length, end, false);
}

/* The stepId that the guard found, or the nil id: to answer with when nothing else can be read. */
static char *echoed_id(const struct json_guard *guard) {
  /* Escaped to the full, a character of one byte takes six. */
  if (guard->member == NULL || guard->member_length > 6 * STEP_ID_MAX + 2)
    return memory_copy(STEP_NIL_ID, strlen(STEP_NIL_ID));
  size_t length;
  char *text = json_guard_mark_nul(guard->member, guard->member_length, &length);
  cJSON *value = parse(text, length, NULL);
  free(text);
  const char *id = cJSON_IsString(value) ? value->valuestring : "";
  length = strlen(id);
  if (length == 0 || length > STEP_ID_MAX || strstr(id, JSON_GUARD_NUL) != NULL)
    id = STEP_NIL_ID;
  char *copy = memory_copy(id, strlen(id));
  cJSON_Delete(value);
  return copy;
}

/* The payload as a tree, which is an object and all that there is; or NULL. */
static cJSON *read_tree(const char *text, size_t length, struct error *error) {
  const char *end;
  cJSON *root = parse(text, length, &end);
  if (root == NULL) {
    error_set(error, "payload: expected JSON, got what is broken or cut off near byte %zu",
              length > 0 ? json_guard_text_offset(text, (size_t)(end - text)) : 0);
    return NULL;
  }
  size_t at = (size_t)(end - text);
  while (at < length && strchr(" \t\r\n", text[at]) != NULL)
    at++;
  if (!cJSON_IsObject(root)) {
    static const struct step_field payload = {.name = "payload"};
    step_field_refuse(&payload, "an object", root, error);
  } else if (at < length) {
    error_set(error, "payload: expected one object, got more behind it at byte %zu",
              json_guard_text_offset(text, at));
  } else {
    return root;
  }
  cJSON_Delete(root);
  return NULL;
}

static int read_fields(struct step *self, cJSON *root, struct error *error) {
  if (step_field_unique(root, "", error) != 0)
    return -1;
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    const struct step_field *field = &fields[i];
    if ((field->kinds & (1u << self->kind)) == 0)
      continue;
    cJSON *value = cJSON_GetObjectItemCaseSensitive(root, field->name);
    if (cJSON_IsNull(value))
      value = NULL;
    if (field->read(field, value, (char *)self + field->offset, error) != 0)
      return -1;
  }
  return 0;
}

int step_parse(struct step *self, const char *payload, size_t length, struct error *error) {
  *self = (struct step){0};
  struct json_guard guard;
  int unsafe = json_guard_scan(&guard, payload, length, "stepId", error);
  self->step_id = echoed_id(&guard);
  if (length > STEP_PAYLOAD_MAX)
    return error_set(error, "payload: expected at most %zu bytes, got %zu", STEP_PAYLOAD_MAX,
                     length);
  if (unsafe != 0)
    return -1;

  char *marked = NULL;
  if (guard.has_nul)
    payload = marked = json_guard_mark_nul(payload, length, &length);
  cJSON *root = read_tree(payload, length, error);
  free(marked);
  if (root == NULL)
    return -1;
  int result = read_fields(self, root, error);
  cJSON_Delete(root);
  return result;
}

static void release_texts(char **texts) {
  for (char **text = texts; text != NULL && *text != NULL; text++)
    free(*text);
  free(texts);
}

void step_release(struct step *self) {
  free(self->step_id);
  free(self->command);
  release_texts(self->args);
  free(self->working_directory);
  release_texts(self->env);
  *self = (struct step){0};
}
