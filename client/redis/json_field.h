#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

/* Reads fields of JSON objects that agents and servers have written: heartbeats, steps and results.
   The object may be NULL, and the field may be absent or of another type; the functions then return
   the fallback, or false. */

const char *json_field_text(const cJSON *object, const char *name, const char *fallback);
double json_field_number(const cJSON *object, const char *name, double fallback);
bool json_field_is_true(const cJSON *object, const char *name);
