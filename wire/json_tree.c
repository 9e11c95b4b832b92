#include "wire/json_tree.h"

#include <stdbool.h>
#include <stdlib.h>

/* cJSON cannot tell exhausted memory from bad JSON. */
static bool is_exhausted;

static void *try_to_allocate(size_t size) {
  void *memory = malloc(size);
  is_exhausted |= memory == NULL;
  return memory;
}

static cJSON *parse(const char *text, size_t length, const char **end) {
  is_exhausted = false;
  *end = text;
  cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = try_to_allocate, .free_fn = free});
  return cJSON_ParseWithLengthOpts(text, length, end, false);
}

static bool is_space(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* Nothing but white space may come after the value. */
static cJSON *parse_all(const char *text, size_t length, struct error *error) {
  const char *end;
  cJSON *tree = parse(text, length, &end);
  size_t at = (size_t)(end - text);
  if (tree == NULL) {
    if (is_exhausted)
      (void)error_set(error, "payload: there is not enough memory for its %zu bytes", length);
    else
      (void)error_set(error, "payload: expected JSON, got what is broken or cut off near byte %zu",
                      length > 0 ? json_guard_text_offset(text, at) : 0);
    return NULL;
  }
  while (at < length && is_space(text[at]))
    at++;
  if (at == length)
    return tree;
  (void)error_set(error, "payload: expected one object, got more behind it at byte %zu",
                  json_guard_text_offset(text, at));
  cJSON_Delete(tree);
  return NULL;
}

cJSON *json_tree_parse_guarded(const struct json_guard *guard, const char *text, size_t length,
                               struct error *error) {
  if (!guard->has_nul)
    return parse_all(text, length, error);
  char *marked = json_guard_mark_nul(text, length, &length);
  cJSON *tree = parse_all(marked, length, error);
  free(marked);
  return tree;
}

cJSON *json_tree_parse(const char *text, size_t length, struct error *error) {
  struct json_guard guard;
  if (json_guard_scan(&guard, text, length, "", error) != 0)
    return NULL;
  return json_tree_parse_guarded(&guard, text, length, error);
}
