#include "wire/json_names.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

void json_names_show(char out[JSON_NAMES_SHOWN_SIZE], const char *text, size_t length) {
  static const char more[] = "...";
  size_t n = 0;
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)text[i];
    if (byte >= 0x80 && byte < 0xC0)
      continue; /* one question mark for each sequence */
    if (n + 1 == JSON_NAMES_SHOWN_SIZE) {
      memcpy(out + n - (sizeof more - 1), more, sizeof more - 1);
      break;
    }
    out[n++] = byte >= 0x20 && byte < 0x7F ? (char)byte : '?';
  }
  out[n] = '\0';
}

void json_names_path(char out[JSON_NAMES_PATH_SIZE], const char *path, const char *name) {
  char shown[JSON_NAMES_SHOWN_SIZE];
  json_names_show(shown, name, strcspn(name, "="));
  (void)snprintf(out, JSON_NAMES_PATH_SIZE, "%s%s%s", path, path[0] != '\0' ? "." : "", shown);
}

/* Sorted by hash first, since the order does not matter and numbers are at hand where strings are
   far apart; names made to collide cost no more than sorting strings does. */
struct hashed_name {
  uint64_t hash;
  const char *name;
};

static int compare(const void *left, const void *right) {
  const struct hashed_name *a = left;
  const struct hashed_name *b = right;
  if (a->hash != b->hash)
    return a->hash < b->hash ? -1 : 1;
  return strcmp(a->name, b->name);
}

int json_names_unique(const cJSON *object, const char *path, struct error *error) {
  size_t count = 0;
  for (const cJSON *item = object->child; item != NULL; item = item->next)
    count++;
  struct hashed_name *names = memory_allocate(count * sizeof *names);
  count = 0;
  for (const cJSON *item = object->child; item != NULL; item = item->next)
    names[count++] =
        (struct hashed_name){hash_bytes(item->string, strlen(item->string)), item->string};
  qsort(names, count, sizeof *names, compare);

  int result = 0;
  for (size_t i = 1; i < count && result == 0; i++) {
    if (compare(&names[i - 1], &names[i]) == 0) {
      char shown[JSON_NAMES_PATH_SIZE];
      json_names_path(shown, path, names[i].name);
      result = error_set(error, "%s: expected once, got it twice", shown);
    }
  }
  free(names);
  return result;
}
