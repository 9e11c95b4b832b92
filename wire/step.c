#include "wire/step.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/check.h"
#include "base/memory.h"
#include "wire/json.h"

const struct step_kind step_shutdown = {.name = "shutdown", .number = 1};
const struct step_kind step_cancel = {.name = "cancel", .number = STEP_CHOICE_NO_NUMBER};

/* What every step has that runs; the target is called what the kind says. */
enum { VERSION, STEP_ID, TARGET, DIRECTORY, TIMEOUT, FOR_MODEL };
static const struct step_field fields[] = {
    [VERSION] = STEP_FIELD("schemaVersion", int32, struct step, schema_version, .fallback = 1),
    [STEP_ID] = STEP_FIELD("stepId", text, struct step, step_id, .required = true, .minimum = 1,
                           .maximum = STEP_ID_MAX),
    [TARGET] = STEP_FIELD(NULL, text, struct step, target, .required = true, .minimum = 1),
    [DIRECTORY] = STEP_FIELD("workingDirectory", text, struct step, working_directory),
    [TIMEOUT] =
        STEP_FIELD("timeoutSeconds", integer, struct step, timeout_seconds, .minimum = 1,
                   .maximum = STEP_TIMEOUT_MAX_SECONDS, .fallback = STEP_TIMEOUT_DEFAULT_SECONDS),
    [FOR_MODEL] = STEP_FIELD(NULL, flag, struct step, for_model)}; /* never read */
static const struct step_table table = STEP_TABLE(fields, struct step);

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

/* The struct of the kind's own fields, all zeros. */
static void *new_fields(const struct step_kind *kind) {
  return memset(memory_allocate(kind->table.size), 0, kind->table.size);
}

/* Reads the fields of every kind with a target, and those of this one. */
static int read_work(struct step *self, const cJSON *root, struct error *error) {
  const struct step_kind *kind = self->kind;
  struct step_field target = fields[TARGET];
  target.name = kind->target;
  if (step_field_read(&target, root, "", self, error) != 0 ||
      step_field_read(&fields[DIRECTORY], root, "", self, error) != 0 ||
      step_field_read(&fields[TIMEOUT], root, "", self, error) != 0)
    return -1;
  if (kind->table.count == 0)
    return 0;
  self->fields = new_fields(kind);
  return step_table_read(&kind->table, root, "", self->fields, error);
}

/* The version is the first of all: whatever is wrong is answered in it. */
static int read_fields(struct step *self, const struct step_kind *const *kinds, const cJSON *root,
                       struct error *error) {
  if (step_field_read(&fields[VERSION], root, "", self, error) != 0 ||
      step_field_names_unique(root, "", error) != 0 ||
      step_field_read(&fields[STEP_ID], root, "", self, error) != 0 ||
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
  self->fields = new_fields(kind);
}

void step_release(struct step *self) {
  if (self->fields != NULL)
    step_table_release(&self->kind->table, self->fields, true);
  free(self->fields);
  free(self->step_id);
  free(self->target);
  free(self->working_directory);
  *self = (struct step){0};
}

/* --- packing --- */

static void put_size(struct buffer *out, size_t size) {
  uint64_t number = size;
  buffer_add(out, (const char *)&number, sizeof number);
}

/* With its NUL; an absent one has length 0. */
static void put_bytes(struct buffer *out, const char *text, size_t length) {
  put_size(out, text != NULL ? length + 1 : 0);
  if (text != NULL)
    buffer_add(out, text, length + 1);
}

static void put_texts(struct buffer *out, char *const *texts) {
  size_t count = 0;
  while (texts != NULL && texts[count] != NULL)
    count++;
  put_size(out, count);
  for (size_t i = 0; i < count; i++)
    put_bytes(out, texts[i], strlen(texts[i]));
}

static void put_table(struct buffer *out, const struct step_table *self, const char *place);

static void put_field(struct buffer *out, const struct step_field *field, const void *place) {
  const char *text = field->type->shape == STEP_SHAPE_TEXT ? *(char *const *)place : NULL;
  const struct step_bytes *bytes = place;
  const struct step_list *list = place;
  switch (field->type->shape) {
  case STEP_SHAPE_PLAIN:
    buffer_add(out, place, field->type->size);
    break;
  case STEP_SHAPE_TEXT:
    put_bytes(out, text, text != NULL ? strlen(text) : 0);
    break;
  case STEP_SHAPE_BYTES:
    put_bytes(out, bytes->text, bytes->length);
    break;
  case STEP_SHAPE_TEXTS:
    put_texts(out, *(char *const *const *)place);
    break;
  case STEP_SHAPE_LIST:
    put_size(out, list->count);
    for (size_t i = 0; i < list->count; i++)
      put_table(out, field->element, (const char *)list->items + i * field->element->size);
    break;
  }
}

static void put_table(struct buffer *out, const struct step_table *self, const char *place) {
  for (size_t i = 0; i < self->count; i++)
    put_field(out, &self->fields[i], place + self->fields[i].offset);
}

void step_pack(const struct step *self, const struct step_kind *const *kinds, struct buffer *out) {
  size_t kind = 0;
  while (kinds[kind] != self->kind)
    CHECK(kinds[kind++] != NULL);
  put_size(out, kind);
  put_table(out, &table, (const char *)self);
  if (self->fields != NULL)
    put_table(out, &self->kind->table, self->fields);
}

/* --- unpacking --- */

struct input {
  char *at, *end;
  bool is_short;
};

static char *take(struct input *self, size_t length) {
  char *at = self->at;
  if ((size_t)(self->end - at) < length) {
    self->is_short = true;
    return NULL;
  }
  self->at += length;
  return at;
}

static size_t take_size(struct input *self) {
  uint64_t number = 0;
  const char *at = take(self, sizeof number);
  if (at != NULL)
    memcpy(&number, at, sizeof number);
  return (size_t)number;
}

static char *take_bytes(struct input *self, size_t *length) {
  size_t size = take_size(self);
  char *text = size > 0 ? take(self, size) : NULL;
  *length = text != NULL ? size - 1 : 0;
  return text;
}

/* Each item takes at least eight bytes. */
static size_t take_count(struct input *self) {
  size_t count = take_size(self);
  if (count > (size_t)(self->end - self->at))
    self->is_short = true;
  return self->is_short ? 0 : count;
}

static char **take_texts(struct input *self) {
  size_t ignored, count = take_count(self);
  char **texts = memory_allocate((count + 1) * sizeof *texts);
  for (size_t i = 0; i < count; i++)
    texts[i] = take_bytes(self, &ignored);
  texts[count] = NULL;
  return texts;
}

static void take_table(struct input *self, const struct step_table *fields_of, char *place);

static void take_list(struct input *self, const struct step_table *element,
                      struct step_list *list) {
  size_t count = take_count(self);
  if (count == 0)
    return;
  *list = (struct step_list){element, memory_allocate(count * element->size), count};
  memset(list->items, 0, count * element->size);
  for (size_t i = 0; i < count; i++)
    take_table(self, element, (char *)list->items + i * element->size);
}

static void take_field(struct input *self, const struct step_field *field, void *place) {
  struct step_bytes *bytes = place;
  const char *plain;
  size_t ignored;
  switch (field->type->shape) {
  case STEP_SHAPE_PLAIN:
    plain = take(self, field->type->size);
    if (plain != NULL)
      memcpy(place, plain, field->type->size);
    break;
  case STEP_SHAPE_TEXT:
    *(char **)place = take_bytes(self, &ignored);
    break;
  case STEP_SHAPE_BYTES:
    bytes->text = take_bytes(self, &bytes->length);
    break;
  case STEP_SHAPE_TEXTS:
    *(char ***)place = take_texts(self);
    break;
  case STEP_SHAPE_LIST:
    take_list(self, field->element, place);
    break;
  }
}

static void take_table(struct input *self, const struct step_table *fields_of, char *place) {
  for (size_t i = 0; i < fields_of->count; i++)
    take_field(self, &fields_of->fields[i], place + fields_of->fields[i].offset);
}

int step_unpack(struct step *self, const struct step_kind *const *kinds, char *packed,
                size_t length) {
  char *begin = packed;
  struct input input = {.at = begin, .end = begin + length};
  *self = (struct step){0};
  size_t kind = take_size(&input), count = 0;
  while (kinds[count] != NULL)
    count++;
  if (input.is_short || kind >= count)
    return -1;
  self->kind = kinds[kind];
  take_table(&input, &table, (char *)self);
  if (self->kind->table.count > 0) {
    self->fields = new_fields(self->kind);
    take_table(&input, &self->kind->table, self->fields);
  }
  return input.is_short || input.at != input.end ? -1 : 0;
}

void step_unpack_release(struct step *self) {
  if (self->fields != NULL)
    step_table_release(&self->kind->table, self->fields, false);
  free(self->fields);
  *self = (struct step){0};
}
