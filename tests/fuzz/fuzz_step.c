/* Any bytes as JSON tokens, as a payload and as a request file. An accepted step keeps the promises
   of wire/step.h; a refused one has an id and an error of one short line. A request that is ready
   is a step; another one has an error; and no request looks broken before it is complete. */
#include "agent/frontends/request_files/exec_request.h"
#include "agent/kinds/kind.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "wire/json.h"
#include "wire/step.h"

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

/* The promises of the field's type about its value. */
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
    demand(*(const uint64_t *)place <= (uint64_t)JSON_EXACT_MAX);
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

static void check_payload(const char *text, size_t length) {
  struct step step;
  struct error error = {.text = ""};
  int result = step_parse(&step, kinds, text, length, &error);
  check_text(step.step_id, 1);
  demand(strlen(step.step_id) <= STEP_ID_MAX);
  if (result != 0)
    check_error(&error);
  else if (step_is_work(&step))
    check_work(&step);
  else
    demand(step.target == NULL && step.fields == NULL);
  step_release(&step);
}

static void check_request(const char *text, size_t length) {
  static const struct exec_request_rules rules = {
      .shell = "sh", .timeout_seconds = 30, .timeout_max_seconds = 120};
  struct exec_request request;
  const struct step *step = &request.step;
  struct error error = {.text = ""};
  if (exec_request_parse(&request, text, length, "id", &rules, &error) == REQUEST_READY)
    demand(step->timeout_seconds >= 1 && step->timeout_seconds <= 120 && step->target[0] != '\0' &&
           step->working_directory[0] != '\0');
  else
    demand(error.text[0] != '\0' && strchr(error.text, '\n') == NULL);
  step_release(&request.step);
}

/* An object for cJSON is an object here, and so may be each beginning of an object. */
static void check_object(const char *text, size_t length) {
  size_t wrong;
  struct error error;
  cJSON *tree = json_tree_parse(text, length, &error);
  enum json_text_state state = json_text_object(text, length, &wrong);
  demand(!cJSON_IsObject(tree) || state == JSON_TEXT_WHOLE || utf8_is_marked(text, length));
  cJSON_Delete(tree);
  if (state == JSON_TEXT_BROKEN)
    length = wrong;
  for (; length > 0; length /= 2)
    demand(json_text_object(text, length, &wrong) != JSON_TEXT_BROKEN);
}

/* The tokens and the end of the first value are the same if the bytes arrive one by one. */
static void check_pieces(const char *text, size_t length) {
  struct json_text whole = {.bytes = text, .length = length}, pieces = {.bytes = text}, ends = {0};
  struct json_text ends_at_once = {0};
  size_t extent = 0, at = 1;
  while (json_text_next(&whole) != JSON_TEXT_SHORT) {
    while (json_text_next(&pieces) == JSON_TEXT_SHORT)
      demand(pieces.length++ < length);
    demand(whole.at > whole.start && whole.at <= length);
    demand(whole.token == pieces.token && whole.start == pieces.start && whole.at == pieces.at);
  }
  bool is_over = json_text_ends(&ends_at_once, text, length, &extent);
  while (at <= length && !json_text_ends(&ends, text, at, &extent))
    at++;
  demand(is_over == (at <= length));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = size > 0 ? (const char *)data : "";
  check_pieces(text, size);
  check_object(text, size);
  check_payload(text, size);
  check_request(text, size);
  return 0;
}
