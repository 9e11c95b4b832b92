/*
 * Any bytes as a payload. A step that is taken keeps the promises of wire/step.h; one that is
 * refused has an id to answer with and one short line that says why.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/kinds/kinds.h"
#include "base/utf8.h"
#include "wire/step.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool promise) {
  if (!promise)
    abort();
}

static void check_text(const char *text, size_t shortest) {
  size_t length = strlen(text);
  demand(length >= shortest);
  demand(utf8_valid_prefix(text, length) == length);
}

static void check_texts(char *const *texts, bool variables) {
  for (; *texts != NULL; texts++) {
    check_text(*texts, 0);
    demand(!variables || strchr(*texts, '=') > *texts);
  }
}

static size_t choices_of(const struct step_field *field) {
  size_t count = 0;
  while (field->choices[count].name != NULL)
    count++;
  return count;
}

static void check_field(const struct step_field *field, const void *place);

static void check_table(const struct step_table *table, const void *place) {
  for (size_t i = 0; i < table->count; i++)
    check_field(&table->fields[i], (const char *)place + table->fields[i].offset);
}

/* What the field's type promises of the value in its place. */
static void check_field(const struct step_field *field, const void *place) {
  const struct step_field_type *type = field->type;
  if (type == &step_field_text) {
    const char *text = *(char *const *)place;
    demand(text != NULL || !field->required);
    check_text(text != NULL ? text : "x", 1);
  } else if (type == &step_field_bytes) {
    const struct step_bytes *bytes = place;
    demand(bytes->text != NULL || !field->required);
    demand(bytes->text == NULL || bytes->text[bytes->length] == '\0');
    demand(bytes->text == NULL || utf8_valid_prefix(bytes->text, bytes->length) == bytes->length);
  } else if (type == &step_field_texts || type == &step_field_env) {
    check_texts(*(char *const *const *)place, type == &step_field_env);
  } else if (type == &step_field_list) {
    const struct step_list *list = place;
    demand(list->count > 0);
    for (size_t i = 0; i < list->count; i++)
      check_table(list->element, (const char *)list->items + i * list->element->size);
  } else if (type == &step_field_count) {
    demand(*(const unsigned *)place <= (field->maximum > 0 ? field->maximum : INT32_MAX));
  } else if (type == &step_field_offset) {
    demand(*(const uint64_t *)place <= UINT64_C(1) << 53);
  } else if (type == &step_field_choice) {
    demand(*(const unsigned *)place < choices_of(field));
  } else {
    demand(type == &step_field_flag);
  }
}

static void check_work(const struct step *step) {
  check_text(step->target, 1);
  if (step->working_directory != NULL)
    check_text(step->working_directory, 1);
  demand(step->timeout_seconds >= 1 && step->timeout_seconds <= STEP_TIMEOUT_MAX_SECONDS);
  check_table(&step->kind->table, step->fields);
}

static void check_error(const struct error *error) {
  const char *text = error->text;
  demand(strlen(text) < 200 &&
         (strstr(text, ": ") != NULL || strstr(text, "wire protocol") != NULL));
  for (; *text != '\0'; text++)
    demand(*text >= ' ' && *text <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct step step;
  struct error error = {""};
  int result = step_parse(&step, kinds, (const char *)data, size, &error);
  check_text(step.step_id, 1);
  demand(strlen(step.step_id) <= STEP_ID_MAX);
  if (result != 0)
    check_error(&error);
  else if (step_is_work(&step))
    check_work(&step);
  else
    demand(step.target == NULL && step.fields == NULL);
  step_release(&step);
  return 0;
}
