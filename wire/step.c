#include "wire/step.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/check.h"
#include "base/memory.h"
#include "wire/json_text.h"
#include "wire/json_tree.h"

const struct step_kind step_shutdown = {.name = "shutdown", .number = 1};
const struct step_kind step_cancel = {.name = "cancel", .number = STEP_CHOICE_NO_NUMBER};

static const struct step_field id_field = {.name = "stepId",
                                           .type = &step_field_text,
                                           .offset = offsetof(struct step, step_id),
                                           .required = true,
                                           .minimum = 1,
                                           .maximum = STEP_ID_MAX};

static const struct step_field version_field = {.name = "schemaVersion",
                                                .type = &step_field_int32,
                                                .offset = offsetof(struct step, schema_version),
                                                .fallback = 1};

static const struct step_field directory_field = {.name = "workingDirectory",
                                                  .type = &step_field_text,
                                                  .offset =
                                                      offsetof(struct step, working_directory)};

static const struct step_field timeout_field = {.name = "timeoutSeconds",
                                                .type = &step_field_integer,
                                                .offset = offsetof(struct step, timeout_seconds),
                                                .minimum = 1,
                                                .maximum = STEP_TIMEOUT_MAX_SECONDS,
                                                .fallback = STEP_TIMEOUT_DEFAULT_SECONDS};

/* What a value takes beside its text: a pointer, and the rounding up of its allocation. */
#define VALUE_BYTES 32

bool step_is_work(const struct step *self) {
  return self->kind->target != NULL;
}

int step_answer_version(const struct step *self) {
  return self->schema_version == STEP_VERSION_OLDEST ? STEP_VERSION_OLDEST : STEP_VERSION_NEWEST;
}

/* The string that the outermost object has for a stepId, as far as that is to be found in text that
   may be broken; `text` is at it then. */
static bool find_id(struct json_text *text) {
  static const char name[] = "\"stepId\"";
  enum { NOTHING, THE_NAME, ITS_COLON } before = NOTHING;
  while (json_text_next(text) != JSON_TEXT_SHORT && text->depth == 0)
    ;
  if (text->token != '{')
    return false;
  for (enum json_text_state state; (state = json_text_next(text)) != JSON_TEXT_SHORT;) {
    if (state == JSON_TEXT_BROKEN && text->fault == JSON_TEXT_ESCAPE)
      continue; /* within a string, which cJSON refuses */
    bool is_string = text->token == '"' && state == JSON_TEXT_WHOLE;
    if (text->depth == 0 || (before == ITS_COLON && is_string))
      return is_string;
    if (is_string && text->depth == 1 && text->at - text->start == sizeof name - 1 &&
        memcmp(text->bytes + text->start, name, sizeof name - 1) == 0)
      before = THE_NAME;
    else
      before = before == THE_NAME && text->token == ':' ? ITS_COLON : NOTHING;
  }
  return false;
}

/* That stepId, or the nil id: for the answer when nothing else can be read. */
static char *echoed_id(const char *payload, size_t length) {
  struct json_text text = {.bytes = payload, .length = length};
  cJSON *value = NULL;
  struct error error;
  if (find_id(&text))
    value = json_tree_parse(payload + text.start, text.at - text.start, &error);
  const char *id = cJSON_GetStringValue(value);
  size_t id_length = id != NULL ? strlen(id) : 0;
  if (id_length == 0 || id_length > STEP_ID_MAX || strstr(id, JSON_TREE_NUL) != NULL)
    id = STEP_NIL_ID;
  char *copy = memory_copy(id, strlen(id));
  cJSON_Delete(value);
  return copy;
}

/* NULL is a kind that is unknown. */
static int find_kind(const struct step_kind **found, const struct step_kind *const *kinds,
                     const cJSON *root, struct error *error) {
  struct step_choice choices[STEP_KINDS_MAX + 1] = {0};
  unsigned count = 0;
  for (; kinds[count] != NULL; count++) {
    CHECK(count < STEP_KINDS_MAX);
    choices[count] = (struct step_choice){kinds[count]->name, kinds[count]->number};
  }
  const struct step_field field = {
      .name = "kind", .type = &step_field_choice, .choices = choices, .fallback = count};
  unsigned chosen = 0;
  if (step_field_read(&field, root, "", &chosen, error) != 0)
    return -1;
  *found = kinds[chosen];
  return 0;
}

static int read_kind(struct step *self, const struct step_kind *const *kinds, const cJSON *root,
                     struct error *error) {
  if (find_kind(&self->kind, kinds, root, error) != 0)
    return -1;
  if (self->kind == NULL)
    return error_set(error,
                     "This sandbox agent speaks wire protocol %d-%d and does not know the step "
                     "kind it was sent (schema version %d). Nothing was executed.",
                     STEP_VERSION_OLDEST, STEP_VERSION_NEWEST, self->schema_version);
  return 0;
}

/* Reads the fields of every kind with a target, and those of this one. */
static int read_work(struct step *self, const cJSON *root, struct error *error) {
  const struct step_kind *kind = self->kind;
  const struct step_field target = {.name = kind->target,
                                    .type = &step_field_text,
                                    .offset = offsetof(struct step, target),
                                    .required = true,
                                    .minimum = 1};
  if (step_field_read(&target, root, "", self, error) != 0 ||
      step_field_read(&directory_field, root, "", self, error) != 0 ||
      step_field_read(&timeout_field, root, "", self, error) != 0)
    return -1;
  if (kind->table.count == 0)
    return 0;
  self->fields = memory_allocate(kind->table.size);
  memset(self->fields, 0, kind->table.size);
  return step_table_read(&kind->table, root, "", self->fields, error);
}

static int read_fields(struct step *self, const struct step_kind *const *kinds, const cJSON *root,
                       struct error *error) {
  /* The first of all: whatever is wrong is answered in it. */
  if (step_field_read(&version_field, root, "", self, error) != 0 ||
      step_field_names_unique(root, "", error) != 0)
    return -1;
  if (step_field_read(&id_field, root, "", self, error) != 0 ||
      read_kind(self, kinds, root, error) != 0)
    return -1;
  return step_is_work(self) ? read_work(self, root, error) : 0;
}

/* A rejection under the stepId of a cancel would look like the answer of the step that it names. */
static void forget_target(struct step *self, const struct step_kind *const *kinds,
                          const cJSON *root) {
  struct error ignored;
  const struct step_kind *kind = NULL;
  if (find_kind(&kind, kinds, root, &ignored) != 0 || kind != &step_cancel)
    return;
  free(self->step_id);
  self->step_id = memory_copy(STEP_NIL_ID, strlen(STEP_NIL_ID));
}

static int read_payload(struct step *self, const struct step_kind *const *kinds,
                        const char *payload, size_t length, struct error *error) {
  if (length > STEP_PAYLOAD_MAX)
    return error_set(error, "payload: expected at most %zu bytes, got %zu", STEP_PAYLOAD_MAX,
                     length);
  size_t values;
  struct error reason;
  cJSON *root = json_tree_parse_counted(payload, length, &values, &reason);
  if (root == NULL)
    return error_set(error, "payload: %s", reason.text);
  self->memory = length + values * VALUE_BYTES;
  int result = cJSON_IsObject(root) ? read_fields(self, kinds, root, error)
                                    : step_field_reject("payload", "an object", root, error);
  if (result != 0)
    forget_target(self, kinds, root);
  cJSON_Delete(root);
  return result;
}

int step_parse(struct step *self, const struct step_kind *const *kinds, const char *payload,
               size_t length, struct error *error) {
  *self = (struct step){.schema_version = STEP_VERSION_OLDEST};
  int result = read_payload(self, kinds, payload, length, error);
  if (self->step_id == NULL)
    self->step_id = echoed_id(payload, length);
  return result;
}

void step_init(struct step *self, const struct step_kind *kind, const char *step_id,
               const char *target, const char *working_directory, unsigned timeout_seconds) {
  *self = (struct step){.schema_version = STEP_VERSION_OLDEST,
                        .step_id = memory_copy(step_id, strlen(step_id)),
                        .kind = kind,
                        .target = memory_copy(target, strlen(target)),
                        .timeout_seconds = timeout_seconds};
  if (working_directory != NULL)
    self->working_directory = memory_copy(working_directory, strlen(working_directory));
  self->fields = memory_allocate(kind->table.size);
  memset(self->fields, 0, kind->table.size);
}

void step_release(struct step *self) {
  if (self->fields != NULL)
    step_table_release(&self->kind->table, self->fields);
  free(self->fields);
  free(self->step_id);
  free(self->target);
  free(self->working_directory);
  *self = (struct step){0};
}
