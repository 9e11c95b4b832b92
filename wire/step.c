#include "wire/step.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/check.h"
#include "base/memory.h"
#include "wire/json_guard.h"
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

/* The stepId that the guard found, or the nil id: for the answer when nothing else can be read. */
static char *echoed_id(const struct json_guard *guard) {
  /* A character of one byte takes up to six as an escape. */
  if (guard->member == NULL || guard->member_length > 6 * STEP_ID_MAX + 2)
    return memory_copy(STEP_NIL_ID, strlen(STEP_NIL_ID));
  struct error error;
  cJSON *value = json_tree_parse(guard->member, guard->member_length, &error);
  const char *id = cJSON_IsString(value) ? value->valuestring : "";
  size_t length = strlen(id);
  if (length == 0 || length > STEP_ID_MAX || strstr(id, JSON_GUARD_NUL) != NULL)
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

/* The stepId replaces the one that the guard found in a text that could have been broken. */
static int read_fields(struct step *self, const struct step_kind *const *kinds, const cJSON *root,
                       struct error *error) {
  /* The first of all: whatever is wrong is answered in it. */
  if (step_field_read(&version_field, root, "", self, error) != 0 ||
      step_field_names_unique(root, "", error) != 0)
    return -1;
  struct step read = {0};
  if (step_field_read(&id_field, root, "", &read, error) != 0)
    return -1;
  free(self->step_id);
  self->step_id = read.step_id;
  if (read_kind(self, kinds, root, error) != 0)
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

int step_parse(struct step *self, const struct step_kind *const *kinds, const char *payload,
               size_t length, struct error *error) {
  *self = (struct step){.schema_version = STEP_VERSION_OLDEST};
  struct json_guard guard;
  int unsafe = json_guard_scan(&guard, payload, length, "stepId", error);
  self->step_id = echoed_id(&guard);
  self->memory = length + guard.values * VALUE_BYTES;
  if (length > STEP_PAYLOAD_MAX)
    return error_set(error, "payload: expected at most %zu bytes, got %zu", STEP_PAYLOAD_MAX,
                     length);
  if (unsafe != 0)
    return -1;

  cJSON *root = json_tree_parse_guarded(&guard, payload, length, error);
  if (root == NULL)
    return -1;
  int result = cJSON_IsObject(root) ? read_fields(self, kinds, root, error)
                                    : step_field_reject("payload", "an object", root, error);
  if (result != 0)
    forget_target(self, kinds, root);
  cJSON_Delete(root);
  return result;
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
