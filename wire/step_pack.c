#include "wire/step_pack.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

/* What every step has that runs. */
static const struct step_field fields[] = {
    {.type = &step_field_int32, .offset = offsetof(struct step, schema_version)},
    {.type = &step_field_text, .offset = offsetof(struct step, step_id)},
    {.type = &step_field_text, .offset = offsetof(struct step, target)},
    {.type = &step_field_text, .offset = offsetof(struct step, working_directory)},
    {.type = &step_field_integer, .offset = offsetof(struct step, timeout_seconds)},
    {.type = &step_field_flag, .offset = offsetof(struct step, for_model)},
};
static const struct step_table table = STEP_TABLE(fields, struct step);

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
  char *at;
  char *end;
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
  struct input input = {.at = packed, .end = packed + length};
  *self = (struct step){0};
  size_t kind = take_size(&input), count = 0;
  while (kinds[count] != NULL)
    count++;
  if (input.is_short || kind >= count)
    return -1;
  self->kind = kinds[kind];
  take_table(&input, &table, (char *)self);
  if (self->kind->table.count > 0) {
    self->fields = memory_allocate(self->kind->table.size);
    memset(self->fields, 0, self->kind->table.size);
    take_table(&input, &self->kind->table, self->fields);
  }
  return input.is_short || input.at != input.end ? -1 : 0;
}

static void release_table(const struct step_table *self, char *place) {
  for (size_t i = 0; i < self->count; i++) {
    const struct step_field *field = &self->fields[i];
    struct step_list *list = (void *)(place + field->offset);
    if (field->type->shape == STEP_SHAPE_TEXTS)
      free(*(char ***)(void *)(place + field->offset));
    if (field->type->shape != STEP_SHAPE_LIST)
      continue;
    for (size_t j = 0; j < list->count; j++)
      release_table(field->element, (char *)list->items + j * field->element->size);
    free(list->items);
  }
}

void step_unpack_release(struct step *self) {
  if (self->fields != NULL)
    release_table(&self->kind->table, self->fields);
  free(self->fields);
  *self = (struct step){0};
}
