#include "agent/frontends/call_ids.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/memory.h"

/* A number with a larger exponent is compared as text. */
#define EXPONENT_MAX INT64_C(1000000000)

/* Adds the string's value after a quote, which no number begins with. */
static void add_string(struct buffer *out, struct json_member id) {
  struct error error;
  cJSON *value = json_tree_parse(id.text, id.length, &error);
  buffer_add(out, "\"", 1);
  if (cJSON_IsString(value))
    buffer_add_string(out, value->valuestring);
  cJSON_Delete(value);
}

static bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

/* Reads the exponent after an `e`; returns false if it is too large. */
static bool read_exponent(const char *at, const char *end, int64_t *out) {
  bool is_negative = at < end && *at == '-';
  int64_t value = 0;
  for (at += at < end && !is_digit(*at); at < end; at++) {
    value = 10 * value + (*at - '0');
    if (value > EXPONENT_MAX)
      return false;
  }
  *out = is_negative ? -value : value;
  return true;
}

/* Adds the digits as an integer without zeros at either end, and its power of ten. Returns false if
   that is too large. */
static bool add_number(struct buffer *out, struct json_member id) {
  const char *end = id.text + id.length, *at = id.text;
  int64_t power = 0, after_point = 0;
  bool has_point = false;
  at += *at == '-';
  for (; at < end && *at != 'e' && *at != 'E'; at++) {
    after_point += has_point;
    has_point = has_point || *at == '.';
    if (is_digit(*at) && (*at != '0' || out->length > 0))
      buffer_add(out, at, 1);
  }
  if (at < end && !read_exponent(at + 1, end, &power))
    return false;
  power -= after_point;
  for (; out->length > 0 && out->bytes[out->length - 1] == '0'; power++)
    out->length--;
  if (out->length == 0)
    power = 0; /* zero is the same with any exponent and sign */
  else if (*id.text == '-')
    buffer_add(out, "-", 1);
  buffer_add_string(out, power < 0 ? "e-" : "e");
  buffer_add_number(out, (uint64_t)(power < 0 ? -power : power));
  return true;
}

static struct buffer canonical_form(struct json_member id) {
  struct buffer out = {0};
  bool is_number = *id.text == '-' || is_digit(*id.text);
  if (*id.text == '"') {
    add_string(&out, id);
  } else if (!is_number || !add_number(&out, id)) {
    out.length = 0;
    buffer_add(&out, id.text, id.length);
  }
  return out;
}

void call_ids_add(struct call_ids *self, struct call_id *entry, struct json_member id, void *call) {
  struct buffer form = canonical_form(id);
  *entry = (struct call_id){.call = call,
                            .text = memory_copy(form.bytes, form.length),
                            .length = form.length,
                            .hash = hash_bytes(form.bytes, form.length)};
  buffer_release(&form);
  list_append(&self->chains[entry->hash % CALL_IDS_CHAINS], &entry->node);
}

void call_ids_remove(struct call_ids *self, struct call_id *entry) {
  if (entry->text == NULL)
    return;
  list_remove(&self->chains[entry->hash % CALL_IDS_CHAINS], &entry->node);
  free(entry->text);
  *entry = (struct call_id){0};
}

void *call_ids_find(const struct call_ids *self, struct json_member id) {
  struct buffer form = canonical_form(id);
  uint64_t hash = hash_bytes(form.bytes, form.length);
  void *call = NULL;
  LIST_FOR_EACH (struct call_id, entry, &self->chains[hash % CALL_IDS_CHAINS], node) {
    if (entry->hash != hash || entry->length != form.length ||
        memcmp(entry->text, form.bytes, form.length) != 0)
      continue;
    call = entry->call;
    break;
  }
  buffer_release(&form);
  return call;
}
