#include "agent/frontends/call_ids.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/memory.h"

/* Adds the string's value after a quote, which no number begins with. */
static void add_string(struct buffer *out, struct json_member id) {
  struct error error;
  cJSON *value = json_tree_parse(id.text, id.length, &error);
  buffer_add(out, "\"", 1);
  if (cJSON_IsString(value))
    buffer_add_string(out, value->valuestring);
  cJSON_Delete(value);
}

/* A double keeps every digit of a number that has at most this many bytes, and lies between this
   and its inverse. */
#define EXACT_LENGTH 15
#define EXACT_MAX 1e15

/* Adds the number's value after a sign that no JSON begins with. Returns false if another number
   may have the same double. */
static bool add_number(struct buffer *out, struct json_member id) {
  if (id.length > EXACT_LENGTH)
    return false;
  errno = 0;
  const double value = strtod(id.text, NULL), size = fabs(value);
  if (errno != 0 || (size != 0 && (size > EXACT_MAX || size < 1 / EXACT_MAX)))
    return false;
  buffer_add_format(out, "=%.17g", size == 0 ? 0 : value);
  return true;
}

/* No canonical id begins with a newline. */
static struct buffer canonical_form(const char *scope, struct json_member id) {
  struct buffer out = {0};
  if (scope != NULL)
    buffer_add_format(&out, "\n%s\n", scope);
  bool is_number = *id.text == '-' || isdigit((unsigned char)*id.text);
  if (*id.text == '"') {
    add_string(&out, id);
  } else if (!is_number || !add_number(&out, id)) {
    buffer_add(&out, id.text, id.length);
  }
  return out;
}

void call_ids_add(struct call_ids *self, struct call_id *entry, const char *scope,
                  struct json_member id, void *call) {
  struct buffer form = canonical_form(scope, id);
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

void *call_ids_find(const struct call_ids *self, const char *scope, struct json_member id) {
  struct buffer form = canonical_form(scope, id);
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
