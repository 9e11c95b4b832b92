#include "wire/step.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/check.h"
#include "base/memory.h"
#include "wire/json.h"

const struct step_kind step_shutdown = {.name = "shutdown", .number = 1};
const struct step_kind step_cancel = {.name = "cancel", .number = STEP_CHOICE_NO_NUMBER};

static const struct step_field read_message_fields[] = {
    STEP_FIELD("seq", offset, struct read_fields, seq)};
const struct step_kind step_read = {.name = "read",
                                    .number = STEP_CHOICE_NO_NUMBER,
                                    .table = STEP_TABLE(read_message_fields, struct read_fields)};

/* The fields of every step that runs. The kind gives the target its name. */
enum {
  VERSION,
  STEP_ID,
  TARGET,
  DIRECTORY,
  TIMEOUT,
  ENV,
  SECRETS,
  FENCE,
  LIMITS,
  FLOW,
  REPLY_TO,
  FOR_MODEL,
  IS_FENCED
};
static const struct step_field fields[] = {
    [VERSION] = STEP_FIELD("schemaVersion", int32, struct step, schema_version, .fallback = 1),
    [STEP_ID] = STEP_FIELD("stepId", text, struct step, step_id, .required = true, .minimum = 1,
                           .maximum = STEP_ID_MAX),
    [TARGET] = STEP_FIELD(NULL, text, struct step, target, .required = true, .minimum = 1),
    [DIRECTORY] = STEP_FIELD("workingDirectory", text, struct step, working_directory),
    [TIMEOUT] =
        STEP_FIELD("timeoutSeconds", integer, struct step, timeout_seconds, .minimum = 1,
                   .maximum = STEP_TIMEOUT_MAX_SECONDS, .fallback = STEP_TIMEOUT_DEFAULT_SECONDS),
    [ENV] = STEP_FIELD("env", env, struct step, env),
    [SECRETS] = STEP_FIELD("secrets", texts, struct step, secrets, .maximum = STEP_SECRETS_MAX),
    [FENCE] = STEP_FIELD("fence", object, struct step, fence, .element = &policy_fence_table),
    [LIMITS] = STEP_FIELD("limits", object, struct step, limits, .element = &policy_limits_table),
    [FLOW] = STEP_FIELD("flowControl", flag, struct step, flow_control),
    [REPLY_TO] = STEP_FIELD("replyTo", reply_to, struct step, reply_to, .minimum = 1,
                            .maximum = STEP_REPLY_TO_MAX),
    [FOR_MODEL] = STEP_FIELD(NULL, flag, struct step, for_model), /* never read */
    [IS_FENCED] = STEP_FIELD(NULL, flag, struct step, is_fenced)};
static const struct step_table table = STEP_TABLE(fields, struct step);

/* The memory of a value beside its text: a pointer, and the rounding of its allocation. */
#define VALUE_BYTES 32

bool step_is_work(const struct step *self) {
  return self->kind->target != NULL;
}

int step_answer_version(const struct step *self) {
  return self->schema_version == STEP_VERSION_OLDEST ? STEP_VERSION_OLDEST : STEP_VERSION_NEWEST;
}

const char *step_variable(const struct step *self, const char *name) {
  const size_t length = strlen(name);
  for (char *const *entry = self->env; entry != NULL && *entry != NULL; entry++)
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
      return *entry + length + 1;
  return NULL;
}

/* Returns the stepId of text that may be broken, or the nil ID, for an answer to a step of which
   nothing else can be read. */
static char *echoed_id(const char *payload, size_t length) {
  static const char *const names[] = {"stepId", NULL};
  struct json_outline outline = {.names = names};
  struct error error;
  (void)json_outline_add(&outline, payload, length);
  cJSON *members = outline.members.length == 0
                       ? NULL
                       : json_tree_parse(outline.members.bytes, outline.members.length, &error);
  const cJSON *first = members != NULL ? members->child : NULL;
  while (first != NULL && !cJSON_IsString(first))
    first = first->next;
  const char *id = cJSON_GetStringValue(first);
  size_t id_length = id != NULL ? strlen(id) : 0;
  if (id_length == 0 || id_length > STEP_ID_MAX || strstr(id, JSON_TREE_NUL) != NULL)
    id = STEP_NIL_ID;
  char *copy = memory_copy(id, strlen(id));
  cJSON_Delete(members);
  buffer_release(&outline.members);
  return copy;
}

/* Sets `*found` to NULL if the kind is unknown. */
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

/* Reads the fields that only this kind has. */
static int read_own_fields(struct step *self, const cJSON *root, struct error *error) {
  const struct step_table *own = &self->kind->table;
  if (own->count == 0)
    return 0;
  self->fields = memory_zeros(own->size);
  return step_table_read(own, root, "", self->fields, error);
}

/* Reads the fields that every kind with a target has, and those of this kind. A valid replyTo was
   read before, because every rejection needs it. */
static int read_work(struct step *self, const cJSON *root, struct error *error) {
  const struct step_kind *kind = self->kind;
  for (size_t i = TARGET; i <= REPLY_TO; i++) {
    struct step_field field = fields[i];
    if (i == REPLY_TO && self->reply_to != NULL)
      continue;
    field.name = i == TARGET ? kind->target : field.name;
    if (step_field_read(&field, root, "", self, error) != 0)
      return -1;
  }
  return read_own_fields(self, root, error);
}

/* Reads the version and replyTo first, because every error is answered with them. If a name occurs
   twice, it may be replyTo, which then means nothing. */
static int read_fields(struct step *self, const struct step_kind *const *kinds, const cJSON *root,
                       struct error *error) {
  struct error ignored;
  int version = step_field_read(&fields[VERSION], root, "", self, error);
  bool is_unique = step_field_names_unique(root, "", version == 0 ? error : &ignored) == 0;
  if (is_unique)
    (void)step_field_read(&fields[REPLY_TO], root, "", self, &ignored);
  if (version != 0 || !is_unique || step_field_read(&fields[STEP_ID], root, "", self, error) != 0 ||
      find_kind(&self->kind, kinds, root, error) != 0)
    return -1;
  if (self->kind == NULL)
    return error_set(error,
                     "This sandbox agent speaks wire protocol %d-%d and does not know the step "
                     "kind it was sent (schema version %d). Nothing was executed.",
                     STEP_VERSION_OLDEST, STEP_VERSION_NEWEST, self->schema_version);
  return step_is_work(self) ? read_work(self, root, error) : read_own_fields(self, root, error);
}

/* Gives the payload this id if it has none. A field that is null counts as absent. */
static void add_missing_id(cJSON *root, const char *step_id) {
  const char *name = fields[STEP_ID].name;
  const cJSON *given = cJSON_GetObjectItemCaseSensitive(root, name);
  if (given != NULL && !cJSON_IsNull(given))
    return;
  cJSON_DeleteItemFromObjectCaseSensitive(root, name);
  if (cJSON_AddStringToObject(root, name, step_id) == NULL)
    memory_exhausted("a step");
}

/* `step_id` is the id of a payload that has none; NULL: it must have one. */
static int read_payload(struct step *self, const struct step_kind *const *kinds,
                        const char *step_id, const char *payload, size_t length,
                        struct error *error) {
  if (length > STEP_PAYLOAD_MAX)
    return error_set(error, "payload: expected at most %zu bytes, got %zu", STEP_PAYLOAD_MAX,
                     length);
  size_t values;
  struct error reason;
  cJSON *root = json_tree_parse_counted(payload, length, &values, &reason);
  if (root == NULL)
    return error_set(error, "payload: %s", reason.text);
  self->memory = length + values * VALUE_BYTES;
  if (step_id != NULL && cJSON_IsObject(root))
    add_missing_id(root, step_id);
  int result = cJSON_IsObject(root) ? read_fields(self, kinds, root, error)
                                    : step_field_reject("payload", "an object", root, error);
  /* A rejection under the stepId of a cancel would look like the answer to the step it names. */
  const struct step_kind *kind = NULL;
  if (result != 0 && find_kind(&kind, kinds, root, &reason) == 0 && kind == &step_cancel) {
    free(self->step_id);
    self->step_id = memory_copy(STEP_NIL_ID, strlen(STEP_NIL_ID));
  }
  cJSON_Delete(root);
  return result;
}

int step_parse_as(struct step *self, const struct step_kind *const *kinds, const char *step_id,
                  const char *payload, size_t length, struct error *error) {
  *self = (struct step){.schema_version = STEP_VERSION_OLDEST};
  int result = read_payload(self, kinds, step_id, payload, length, error);
  if (self->step_id == NULL)
    self->step_id = echoed_id(payload, length);
  return result;
}

int step_parse(struct step *self, const struct step_kind *const *kinds, const char *payload,
               size_t length, struct error *error) {
  return step_parse_as(self, kinds, NULL, payload, length, error);
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
  self->fields = memory_zeros(kind->table.size);
}

void step_release(struct step *self) {
  if (self->fields != NULL)
    step_table_release(&self->kind->table, self->fields, !self->borrows_texts);
  free(self->fields);
  step_table_release(&table, self, !self->borrows_texts);
  *self = (struct step){0};
}

/* --- packing: the same walk over the tables writes the step or reads it --- */

struct step_packer {
  struct buffer *out; /* NULL when reading */
  char *at, *end;     /* the rest of the bytes to read */
  bool is_short;
};

/* Returns the next `length` bytes, or NULL if fewer are left. */
static char *next_bytes(struct step_packer *self, size_t length) {
  char *at = self->at;
  self->is_short |= (size_t)(self->end - at) < length;
  if (self->is_short)
    return NULL;
  self->at += length;
  return at;
}

static void pack_plain(struct step_packer *self, void *place, size_t size) {
  const char *bytes = self->out == NULL ? next_bytes(self, size) : NULL;
  if (self->out != NULL)
    buffer_add(self->out, place, size);
  else if (bytes != NULL)
    memcpy(place, bytes, size);
}

static size_t pack_size(struct step_packer *self, size_t size) {
  uint64_t number = size;
  pack_plain(self, &number, sizeof number);
  return self->is_short ? 0 : (size_t)number;
}

/* Packs a text with its NUL; an absent one has length 0. */
static void pack_bytes(struct step_packer *self, char **text, size_t *length) {
  size_t size = pack_size(self, *text != NULL ? *length + 1 : 0);
  if (self->out != NULL)
    buffer_add(self->out, *text, size);
  else if (size > 0 && (*text = next_bytes(self, size)) != NULL)
    *length = size - 1;
}

static void pack_text(struct step_packer *self, char **text) {
  size_t length = *text != NULL ? strlen(*text) : 0;
  pack_bytes(self, text, &length);
}

/* Packs the number of items, each of which takes at least eight bytes. */
static size_t pack_count(struct step_packer *self, size_t count) {
  count = pack_size(self, count);
  self->is_short |= self->out == NULL && count > (size_t)(self->end - self->at);
  return self->is_short ? 0 : count;
}

static void pack_texts(struct step_packer *self, char ***texts) {
  size_t count = 0;
  while (*texts != NULL && (*texts)[count] != NULL)
    count++;
  count = pack_count(self, count);
  if (self->out == NULL)
    *texts = memory_zeros((count + 1) * sizeof **texts);
  for (size_t i = 0; *texts != NULL && i < count; i++)
    pack_text(self, &(*texts)[i]);
}

static void pack_table(struct step_packer *self, const struct step_table *fields_of, void *place);

static void pack_list(struct step_packer *self, const struct step_table *element,
                      struct step_list *list) {
  size_t count = pack_count(self, list->count);
  if (self->out == NULL && count > 0)
    *list = (struct step_list){element, memory_zeros(count * element->size), count};
  for (size_t i = 0; i < count; i++)
    pack_table(self, element, (char *)list->items + i * element->size);
}

static void pack_table(struct step_packer *self, const struct step_table *fields_of, void *place) {
  for (size_t i = 0; i < fields_of->count; i++) {
    const struct step_field *field = &fields_of->fields[i];
    void *at = (char *)place + field->offset;
    struct step_bytes *bytes = at;
    enum step_shape shape = field->type->shape;
    if (shape == STEP_SHAPE_PLAIN)
      pack_plain(self, at, field->type->size);
    else if (shape == STEP_SHAPE_TEXT)
      pack_text(self, at);
    else if (shape == STEP_SHAPE_BYTES)
      pack_bytes(self, &bytes->text, &bytes->length);
    else if (shape == STEP_SHAPE_TEXTS)
      pack_texts(self, at);
    else if (shape == STEP_SHAPE_LIST)
      pack_list(self, field->element, at);
  }
}

void step_pack(const struct step *self, const struct step_kind *const *kinds, struct buffer *out) {
  struct step_packer pack = {.out = out};
  struct step step = *self; /* a copy, because the walk takes no const */
  size_t kind = 0;
  while (kinds[kind] != self->kind)
    CHECK(kinds[kind++] != NULL);
  (void)pack_size(&pack, kind);
  pack_table(&pack, &table, &step);
  if (step.fields != NULL)
    pack_table(&pack, &step.kind->table, step.fields);
}

int step_unpack(struct step *self, const struct step_kind *const *kinds, char *packed,
                size_t length) {
  struct step_packer pack = {.end = packed + length};
  pack.at = packed;
  *self = (struct step){.borrows_texts = true};
  size_t kind = pack_size(&pack, 0), count = 0;
  while (kinds[count] != NULL)
    count++;
  if (pack.is_short || kind >= count)
    return -1;
  self->kind = kinds[kind];
  pack_table(&pack, &table, self);
  if (self->kind->table.count > 0) {
    self->fields = memory_zeros(self->kind->table.size);
    pack_table(&pack, &self->kind->table, self->fields);
  }
  return pack.is_short || pack.at != pack.end ? -1 : 0;
}
