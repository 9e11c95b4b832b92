#include "wire/step_field.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/memory.h"
#include "wire/json.h"

static const char *type_name(const cJSON *value) {
  if (value == NULL)
    return "nothing";
  if (cJSON_IsString(value))
    return value->valuestring[0] == '\0' ? "an empty string" : "a string";
  if (cJSON_IsNumber(value))
    return "a number";
  if (cJSON_IsBool(value))
    return "a boolean";
  if (cJSON_IsArray(value))
    return "an array";
  return cJSON_IsObject(value) ? "an object" : "null";
}

int step_field_reject(const char *path, const char *expected, const cJSON *value,
                      struct error *error) {
  return error_set(error, "%s: expected %s, got %s", path, expected, type_name(value));
}

/* A name, or what else is short: its ASCII, one question mark for each other character, and "..."
   when that is not all. The size is with the NUL. */
#define SHOWN_SIZE 41

static void show(char out[SHOWN_SIZE], const char *text, size_t length) {
  static const char more[] = "...";
  size_t n = 0;
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)text[i];
    if (byte >= 0x80 && byte < 0xC0)
      continue; /* one question mark for each sequence */
    if (n + 1 == SHOWN_SIZE) {
      memcpy(out + n - (sizeof more - 1), more, sizeof more - 1);
      break;
    }
    out[n++] = byte >= 0x20 && byte < 0x7F ? (char)byte : '?';
  }
  out[n] = '\0';
}

/* "<path>.<name>", such as env.PATH. What follows a "=" in a name may be meant as a value, and
   values are not shown. */
#define PATH_SIZE 80

static void make_path(char out[PATH_SIZE], const char *path, const char *name) {
  char shown[SHOWN_SIZE];
  show(shown, name, strcspn(name, "="));
  (void)snprintf(out, PATH_SIZE, "%s%s%s", path, path[0] != '\0' ? "." : "", shown);
}

/* Sorted by hash first: any order will do, and to compare numbers touches no memory but the array.
   Names that were made to collide cost no more than sorting strings does. */
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

int step_field_names_unique(const cJSON *object, const char *path, struct error *error) {
  struct hashed_name *names = memory_allocate((size_t)cJSON_GetArraySize(object) * sizeof *names);
  size_t count = 0;
  for (const cJSON *item = object->child; item != NULL; item = item->next)
    names[count++] =
        (struct hashed_name){hash_bytes(item->string, strlen(item->string)), item->string};
  qsort(names, count, sizeof *names, compare);

  int result = 0;
  for (size_t i = 1; i < count && result == 0; i++) {
    if (compare(&names[i - 1], &names[i]) == 0) {
      char shown[PATH_SIZE];
      make_path(shown, path, names[i].name);
      result = error_set(error, "%s: expected once, got it twice", shown);
    }
  }
  free(names);
  return result;
}

/* In a tree only a marked NUL has this byte, which is never part of UTF-8. */
static bool has_nul(const char *text) {
  return strchr(text, (unsigned char)JSON_TREE_NUL[0]) != NULL;
}

static int check_text(const char *path, const cJSON *value, struct error *error) {
  if (!cJSON_IsString(value))
    return step_field_reject(path, "a string", value, error);
  if (has_nul(value->valuestring))
    return error_set(error, "%s: expected a string without NUL, got one with it", path);
  return 0;
}

/* Moves the string instead of copying it: it may be most of a large payload. */
static char *take_text(cJSON *value) {
  char *text = value->valuestring;
  value->valuestring = NULL;
  return text;
}

static int read_text(const struct step_field *self, cJSON *value, void *place,
                     struct error *error) {
  const char *expected = self->minimum > 0 ? "a non-empty string" : "a string";
  if (value == NULL && !self->required)
    return 0;
  if (value == NULL || !cJSON_IsString(value))
    return step_field_reject(self->name, expected, value, error);
  if (check_text(self->name, value, error) != 0)
    return -1;
  size_t length = strlen(value->valuestring);
  if (length < self->minimum)
    return step_field_reject(self->name, expected, value, error);
  if (self->maximum > 0 && length > self->maximum)
    return error_set(error, "%s: expected at most %u bytes, got %zu", self->name, self->maximum,
                     length);
  if (length > 0)
    *(char **)place = take_text(value);
  return 0;
}

const struct step_field_type step_field_text = {.shape = STEP_SHAPE_TEXT, .read = read_text};

/* Each NUL in it is marked. */
static int read_bytes(const struct step_field *self, cJSON *value, void *place,
                      struct error *error) {
  if (value == NULL && !self->required)
    return 0;
  if (value == NULL || !cJSON_IsString(value))
    return step_field_reject(self->name, "a string", value, error);
  struct step_bytes *bytes = place;
  bytes->text = take_text(value);
  bytes->length = json_tree_unmark_nul(bytes->text);
  return 0;
}

const struct step_field_type step_field_bytes = {.shape = STEP_SHAPE_BYTES, .read = read_bytes};

/* Puts an empty list with room for the value's members at the place. */
static char **new_texts(const cJSON *value, void *place) {
  char **texts = memory_allocate(((size_t)cJSON_GetArraySize(value) + 1) * sizeof *texts);
  texts[0] = NULL;
  *(char ***)place = texts;
  return texts;
}

static int read_texts(const struct step_field *self, cJSON *value, void *place,
                      struct error *error) {
  if (value != NULL && !cJSON_IsArray(value))
    return step_field_reject(self->name, "an array of strings", value, error);
  char **texts = new_texts(value, place);
  size_t count = 0;
  cJSON *item;
  cJSON_ArrayForEach(item, value) {
    /* There may be many: make a path only for a bad one. */
    if (!cJSON_IsString(item) || has_nul(item->valuestring)) {
      char path[PATH_SIZE];
      (void)snprintf(path, sizeof path, "%s[%zu]", self->name, count);
      return check_text(path, item, error);
    }
    texts[count++] = take_text(item);
    texts[count] = NULL;
  }
  return 0;
}

const struct step_field_type step_field_texts = {.shape = STEP_SHAPE_TEXTS, .read = read_texts};

static int check_variable(const char *field, const cJSON *item, struct error *error) {
  const char *name = item->string;
  if (name[0] == '\0')
    return error_set(error, "%s: expected non-empty names, got an empty one", field);
  bool good_name = strchr(name, '=') == NULL && !has_nul(name);
  if (good_name && cJSON_IsString(item) && !has_nul(item->valuestring))
    return 0;
  char path[PATH_SIZE]; /* made for a bad one only */
  make_path(path, field, name);
  if (strchr(name, '=') != NULL)
    return error_set(error, "%s: expected a name without \"=\", got one with it", path);
  if (has_nul(name))
    return error_set(error, "%s: expected a name without NUL, got one with it", path);
  return check_text(path, item, error);
}

static char *join_variable(const char *name, const char *value) {
  size_t name_length = strlen(name);
  size_t value_length = strlen(value);
  char *variable = memory_allocate(name_length + 1 + value_length + 1);
  memcpy(variable, name, name_length);
  variable[name_length] = '=';
  memcpy(variable + name_length + 1, value, value_length + 1);
  return variable;
}

static int read_env(const struct step_field *self, cJSON *value, void *place, struct error *error) {
  if (value != NULL && !cJSON_IsObject(value))
    return step_field_reject(self->name, "an object of strings", value, error);
  char **texts = new_texts(value, place);
  if (value == NULL)
    return 0;
  if (step_field_names_unique(value, self->name, error) != 0)
    return -1;
  size_t count = 0;
  for (cJSON *item = value->child; item != NULL; item = item->next) {
    if (check_variable(self->name, item, error) != 0)
      return -1;
    char *text = take_text(item);
    texts[count++] = join_variable(item->string, text);
    texts[count] = NULL;
    free(text);
  }
  return 0;
}

const struct step_field_type step_field_env = {.shape = STEP_SHAPE_TEXTS, .read = read_env};

/* --- objects --- */

int step_field_read(const struct step_field *self, const cJSON *object, const char *path,
                    void *place, struct error *error) {
  struct step_field field = *self;
  char name[PATH_SIZE];
  cJSON *value = cJSON_GetObjectItemCaseSensitive(object, self->name);
  if (cJSON_IsNull(value) && !self->type->takes_null)
    value = NULL;
  if (path[0] != '\0') {
    (void)snprintf(name, sizeof name, "%s.%s", path, self->name);
    field.name = name;
  }
  return field.type->read(&field, value, (char *)place + field.offset, error);
}

int step_table_read(const struct step_table *self, const cJSON *object, const char *path,
                    void *place, struct error *error) {
  for (size_t i = 0; i < self->count; i++)
    if (step_field_read(&self->fields[i], object, path, place, error) != 0)
      return -1;
  return 0;
}

static void release_texts(char **texts, bool owns_texts) {
  for (char **text = texts; owns_texts && text != NULL && *text != NULL; text++)
    free(*text);
  free(texts);
}

void step_table_release(const struct step_table *self, void *place, bool owns_texts) {
  for (size_t i = 0; i < self->count; i++) {
    void *field = (char *)place + self->fields[i].offset;
    const struct step_list *list = field;
    switch (self->fields[i].type->shape) {
    case STEP_SHAPE_PLAIN:
      break;
    case STEP_SHAPE_TEXT:
    case STEP_SHAPE_BYTES: /* whose text comes first */
      if (owns_texts)
        free(*(char **)field);
      break;
    case STEP_SHAPE_TEXTS:
      release_texts(*(char ***)field, owns_texts);
      break;
    case STEP_SHAPE_LIST:
      for (size_t k = 0; k < list->count; k++)
        step_table_release(list->element, (char *)list->items + k * list->element->size,
                           owns_texts);
      free(list->items);
      break;
    }
  }
}

static int read_item(const struct step_list *list, const char *path, const cJSON *item,
                     struct error *error) {
  char *place = (char *)list->items + (list->count - 1) * list->element->size;
  if (!cJSON_IsObject(item))
    return step_field_reject(path, "an object", item, error);
  if (step_field_names_unique(item, path, error) != 0)
    return -1;
  return step_table_read(list->element, item, path, place, error);
}

static int read_list(const struct step_field *self, cJSON *value, void *place,
                     struct error *error) {
  struct step_list *list = place;
  if (value == NULL && !self->required)
    return 0;
  if (value == NULL || !cJSON_IsArray(value))
    return step_field_reject(self->name, "an array of objects", value, error);
  size_t count = (size_t)cJSON_GetArraySize(value);
  if (count == 0)
    return error_set(error, "%s: expected an array of objects, got an empty one", self->name);
  list->element = self->element;
  list->items = memory_allocate(count * self->element->size);
  memset(list->items, 0, count * self->element->size);
  for (const cJSON *item = value->child; item != NULL; item = item->next) {
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s[%zu]", self->name, list->count++);
    if (read_item(list, path, item, error) != 0)
      return -1;
  }
  return 0;
}

const struct step_field_type step_field_list = {.shape = STEP_SHAPE_LIST, .read = read_list};

/* --- numbers --- */

/* Leaves the number as it is where the value is absent. */
static int read_number(const struct step_field *self, const char *expected, cJSON *value,
                       double minimum, double maximum, double *number, struct error *error) {
  if (value == NULL)
    return 0;
  if (!cJSON_IsNumber(value))
    return step_field_reject(self->name, expected, value, error);
  *number = value->valuedouble;
  if (*number < minimum || *number > maximum || *number != (double)(int64_t)*number)
    return error_set(error, "%s: expected %s, got %.15g", self->name, expected, *number);
  return 0;
}

static int read_integer(const struct step_field *self, cJSON *value, void *place,
                        struct error *error) {
  char expected[64];
  (void)snprintf(expected, sizeof expected, "a whole number from %u to %u", self->minimum,
                 self->maximum);
  double number = self->fallback;
  if (read_number(self, expected, value, self->minimum, self->maximum, &number, error) != 0)
    return -1;
  *(unsigned *)place = (unsigned)number;
  return 0;
}

const struct step_field_type step_field_integer = {.read = read_integer, .size = sizeof(unsigned)};

static int read_int32(const struct step_field *self, cJSON *value, void *place,
                      struct error *error) {
  double number = self->fallback;
  if (read_number(self, "a whole number of 32 bits", value, INT32_MIN, INT32_MAX, &number, error) !=
      0)
    return -1;
  *(int *)place = (int)number;
  return 0;
}

const struct step_field_type step_field_int32 = {.read = read_int32, .size = sizeof(int)};

static int read_up_to(const struct step_field *self, cJSON *value, int64_t minimum, int64_t maximum,
                      double *number, struct error *error) {
  char expected[64];
  (void)snprintf(expected, sizeof expected, "a whole number up to %lld", (long long)maximum);
  *number = 0;
  return read_number(self, expected, value, (double)minimum, (double)maximum, number, error);
}

static int read_count(const struct step_field *self, cJSON *value, void *place,
                      struct error *error) {
  double number;
  unsigned maximum = self->maximum > 0 ? self->maximum : INT32_MAX;
  if (read_up_to(self, value, INT32_MIN, maximum, &number, error) != 0)
    return -1;
  *(unsigned *)place = number < 1 ? self->fallback : (unsigned)number;
  return 0;
}

const struct step_field_type step_field_count = {.read = read_count, .size = sizeof(unsigned)};

#define EXACT_MAX (INT64_C(1) << 53)

static int read_offset(const struct step_field *self, cJSON *value, void *place,
                       struct error *error) {
  double number;
  if (read_up_to(self, value, -EXACT_MAX, EXACT_MAX, &number, error) != 0)
    return -1;
  *(uint64_t *)place = number < 1 ? 0 : (uint64_t)number;
  return 0;
}

const struct step_field_type step_field_offset = {.read = read_offset, .size = sizeof(uint64_t)};

static int read_flag(const struct step_field *self, cJSON *value, void *place,
                     struct error *error) {
  if (value != NULL && !cJSON_IsBool(value))
    return step_field_reject(self->name, "true or false", value, error);
  *(bool *)place = value != NULL ? cJSON_IsTrue(value) : self->fallback != 0;
  return 0;
}

const struct step_field_type step_field_flag = {.read = read_flag, .size = sizeof(bool)};

#define BLANKS " \t\n\v\f\r"

/* The text without the space around it. */
static const char *trim(const char *text, size_t *length) {
  text += strspn(text, BLANKS);
  *length = strlen(text);
  while (*length > 0 && strchr(BLANKS, text[*length - 1]) != NULL)
    --*length;
  return text;
}

static bool is_number(const char *text, size_t length, int number) {
  char *end;
  return length > 0 && strtoll(text, &end, 10) == number && end == text + length;
}

static bool is_chosen(const struct step_choice *choice, const cJSON *value) {
  bool has_number = choice->number != STEP_CHOICE_NO_NUMBER;
  if (cJSON_IsNumber(value))
    return has_number && value->valuedouble == choice->number;
  if (!cJSON_IsString(value))
    return false;
  size_t length;
  const char *text = trim(value->valuestring, &length);
  return (strlen(choice->name) == length && strncasecmp(text, choice->name, length) == 0) ||
         (has_number && is_number(text, length, choice->number));
}

static int reject_choice(const struct step_field *self, const cJSON *value, struct error *error) {
  char expected[160] = "one of ";
  for (const struct step_choice *choice = self->choices; choice->name != NULL; choice++) {
    size_t length = strlen(expected);
    (void)snprintf(expected + length, sizeof expected - length, "%s%s",
                   choice > self->choices ? ", " : "", choice->name);
  }
  return step_field_reject(self->name, expected, value, error);
}

static int read_choice(const struct step_field *self, cJSON *value, void *place,
                       struct error *error) {
  if (value == NULL)
    return 0;
  if (cJSON_IsArray(value) || cJSON_IsObject(value))
    return reject_choice(self, value, error);
  unsigned chosen = 0;
  while (self->choices[chosen].name != NULL && !is_chosen(&self->choices[chosen], value))
    chosen++;
  *(unsigned *)place = self->choices[chosen].name != NULL ? chosen : self->fallback;
  return 0;
}

const struct step_field_type step_field_choice = {
    .read = read_choice, .takes_null = true, .size = sizeof(unsigned)};
