#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/*
 * Writes a Step as JSON, field by field. The commands make their steps with it, and each step gets
 * a result list that no other client reads. Texts may have any bytes; those that are not UTF-8
 * become U+FFFD.
 *
 *   step_text_begin(&json, id, "run");
 *   step_text_string(&json, "command", "make");
 *   step_text_strings(&json, "args", arguments);
 *   step_text_end(&json);                              adds a NUL
 */
#define STEP_ID_SIZE 37

/* Makes a random GUID (RFC 9562, version 4) in lower case. */
void step_id_make(char id[STEP_ID_SIZE]);

/* Begins the object. The result of the step goes to the list that job_take_result reads, which is
   the step's alone. */
void step_text_begin(struct buffer *json, const char *id, const char *kind);
void step_text_string(struct buffer *json, const char *name, const char *value);
void step_text_bytes(struct buffer *json, const char *name, const char *bytes, size_t length);
void step_text_number(struct buffer *json, const char *name, unsigned long long number);
void step_text_flag(struct buffer *json, const char *name, bool flag);
/* Adds an array of texts. The values end with NULL. */
void step_text_strings(struct buffer *json, const char *name, const char *const *values);
/* Adds a value that is JSON already. */
void step_text_json(struct buffer *json, const char *name, const char *value, size_t length);
void step_text_end(struct buffer *json);
