#include "client/steps/step_text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"

void step_id_make(char id[STEP_ID_SIZE]) {
  const uint64_t high = (random_u64() & ~UINT64_C(0xF000)) | 0x4000;
  const uint64_t low = (random_u64() & ~(UINT64_C(3) << 62)) | UINT64_C(1) << 63;
  (void)snprintf(id, STEP_ID_SIZE, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(high >> 32),
                 (unsigned)(high >> 16 & 0xFFFF), (unsigned)(high & 0xFFFF), (unsigned)(low >> 48),
                 (unsigned long long)(low & UINT64_C(0xFFFFFFFFFFFF)));
}

static void add_name(struct buffer *json, const char *name) {
  buffer_add_format(json, ",\"%s\":", name);
}

void step_text_begin(struct buffer *json, const char *id, const char *kind) {
  buffer_add_string(json, "{\"schemaVersion\":1,\"stepId\":");
  buffer_add_json(json, id, strlen(id));
  buffer_add_format(json, ",\"kind\":\"%s\",\"replyTo\":\"%s\"", kind, id);
}

void step_text_bytes(struct buffer *json, const char *name, const char *bytes, size_t length) {
  add_name(json, name);
  buffer_add_json(json, bytes, length);
}

void step_text_string(struct buffer *json, const char *name, const char *value) {
  step_text_bytes(json, name, value, strlen(value));
}

void step_text_number(struct buffer *json, const char *name, unsigned long long number) {
  add_name(json, name);
  buffer_add_number(json, number);
}

void step_text_flag(struct buffer *json, const char *name, bool flag) {
  add_name(json, name);
  buffer_add_string(json, flag ? "true" : "false");
}

void step_text_strings(struct buffer *json, const char *name, const char *const *values) {
  add_name(json, name);
  buffer_add_string(json, "[");
  for (size_t i = 0; values[i] != NULL; i++) {
    buffer_add_string(json, i > 0 ? "," : "");
    buffer_add_json(json, values[i], strlen(values[i]));
  }
  buffer_add_string(json, "]");
}

void step_text_json(struct buffer *json, const char *name, const char *value, size_t length) {
  add_name(json, name);
  buffer_add(json, value, length);
}

void step_text_end(struct buffer *json) {
  buffer_add(json, "}", 2);
}
