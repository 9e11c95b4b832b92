#ifndef WIRE_JSON_TREE_H
#define WIRE_JSON_TREE_H

#include <cjson/cJSON.h>
#include <stddef.h>

#include "base/error.h"
#include "wire/json_guard.h"

/*
 * Hostile text as a tree of cJSON: one value and nothing after it, which the guard has passed
 * (json_guard.h). In the strings of the tree JSON_GUARD_NUL stands for each NUL. Names may be there
 * twice: see step_field_names_unique.
 *
 * Returns the tree, for cJSON_Delete, or NULL with the error, which begins with "payload: ".
 */
cJSON *json_tree_parse(const char *text, size_t length, struct error *error);

/* The same of text that this guard has passed already. */
cJSON *json_tree_parse_guarded(const struct json_guard *guard, const char *text, size_t length,
                               struct error *error);

#endif
