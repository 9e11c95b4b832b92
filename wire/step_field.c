#include "wire/step_field.h"

#include <limits.h>
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

/* A name in an error: its ASCII, a question mark for each other character, and "..." if it is cut.
   The size includes the NUL. */
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

/* The size of "<path>.<name>", such as env.PATH. The part of a name behind a "=" may be a value,
   and values are not shown. */
#define PATH_SIZE 80

static void make_path(char out[PATH_SIZE], const char *path, const char *name) {
  char shown[SHOWN_SIZE];
  show(shown, name, strcspn(name, "="));
  (void)snprintf(out, PATH_SIZE, "%s%s%s", path, path[0] != '\0' ? "." : "", shown);
}

/* Sorted by hash first: any order will do, and comparing numbers touches no memory outside the
   array. Names that were made to collide only cost what sorting strings costs. */
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

/* Only a marked NUL has this byte, which is never part of UTF-8. */
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

/* Up to this size, whole numbers are shown with all of their digits. */
#define WHOLE_MAX 1e17

static int reject_number(const struct step_field *self, const cJSON *value, double minimum,
                         double maximum, struct error *error) {
  char expected[64] = "a whole number of 32 bits";
  if (minimum >= 0)
    (void)snprintf(expected, sizeof expected, "a whole number from %.0f to %.0f", minimum, maximum);
  else if (self->type->zero_is_absent)
    (void)snprintf(expected, sizeof expected, "a whole number up to %.0f", maximum);
  if (!cJSON_IsNumber(value))
    return step_field_reject(self->name, expected, value, error);
  double number = value->valuedouble;
  bool is_whole = number >= -WHOLE_MAX && number <= WHOLE_MAX && number == (double)(int64_t)number;
  return error_set(error, is_whole ? "%s: expected %s, got %.0f" : "%s: expected %s, got %.15g",
                   self->name, expected, number);
}

static bool is_whole_within(const cJSON *value, double minimum, double maximum) {
  return cJSON_IsNumber(value) && value->valuedouble >= minimum && value->valuedouble <= maximum &&
         value->valuedouble == (double)(int64_t)value->valuedouble;
}

/* Moves the string instead of copying it, because it may be most of a large payload. */
static char *move_text(cJSON *value) {
  char *text = value->valuestring;
  value->valuestring = NULL;
  return text;
}

static const char *expected_of(const struct step_field *self) {
  return self->minimum > 0 ? "a non-empty string" : self->type->expected;
}

/* A type whose JSON type is checked before it is read. */
#define CHECKED(SHAPE, IS, EXPECTED, READ)                                                         \
  { .shape = STEP_SHAPE_##SHAPE, .is = cJSON_Is##IS, .expected = (EXPECTED), .read = (READ) }

static int read_text(const struct step_field *self, cJSON *value, void *place,
                     struct error *error) {
  if (value == NULL)
    return 0;
  if (check_text(self->name, value, error) != 0)
    return -1;
  size_t length = strlen(value->valuestring);
  if (length < self->minimum)
    return step_field_reject(self->name, expected_of(self), value, error);
  if (self->maximum > 0 && length > self->maximum)
    return error_set(error, "%s: expected at most %u bytes, got %zu", self->name, self->maximum,
                     length);
  if (length > 0)
    *(char **)place = move_text(value);
  return 0;
}

const struct step_field_type step_field_text = CHECKED(TEXT, String, "a string", read_text);

/* The names of keys of PROTOCOL.md: `sandbox:<job>:results:in` would be the queue of the job
   `<job>:results`. */
static bool ends_a_key(const char *text) {
  static const char *const ends[] = {"in",       "events",  "results",   "control",
                                     "inflight", "started", "committed", "heartbeat"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (strcmp(text, ends[i]) == 0)
      return true;
  return false;
}

static int read_reply_to(const struct step_field *self, cJSON *value, void *place,
                         struct error *error) {
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  const char *text = value != NULL ? value->valuestring : "";
  if (text[strspn(text, allowed)] != '\0')
    return error_set(error, "%s: expected only letters, digits, \".\", \"_\" and \"-\"",
                     self->name);
  if (ends_a_key(text))
    return error_set(error, "%s: expected a name that is not the end of a key", self->name);
  return read_text(self, value, place, error);
}

const struct step_field_type step_field_reply_to = CHECKED(TEXT, String, "a string", read_reply_to);

static int read_bytes(const struct step_field *self, cJSON *value, void *place,
                      struct error *error) {
  struct step_bytes *bytes = place;
  (void)self;
  (void)error;
  if (value == NULL)
    return 0;
  bytes->text = move_text(value);
  bytes->length = json_tree_unmark_nul(bytes->text);
  return 0;
}

const struct step_field_type step_field_bytes = CHECKED(BYTES, String, "a string", read_bytes);

static char **new_texts(const cJSON *value) {
  return memory_zeros(((size_t)cJSON_GetArraySize(value) + 1) * sizeof(char *));
}

static int read_texts(const struct step_field *self, cJSON *value, void *place,
                      struct error *error) {
  size_t count = (size_t)cJSON_GetArraySize(value);
  if (self->maximum > 0 && count > self->maximum)
    return error_set(error, "%s: expected at most %u, got %zu", self->name, self->maximum, count);
  char **texts = *(char ***)place = new_texts(value);
  count = 0;
  cJSON *item;
  cJSON_ArrayForEach(item, value) {
    /* There may be many, so make a path only for a bad one. */
    if (!cJSON_IsString(item) || has_nul(item->valuestring)) {
      char path[PATH_SIZE];
      (void)snprintf(path, sizeof path, "%s[%zu]", self->name, count);
      return check_text(path, item, error);
    }
    texts[count++] = move_text(item);
  }
  return 0;
}

const struct step_field_type step_field_texts =
    CHECKED(TEXTS, Array, "an array of strings", read_texts);

static int read_paths(const struct step_field *self, cJSON *value, void *place,
                      struct error *error) {
  if (value == NULL)
    return 0;
  if (read_texts(self, value, place, error) != 0)
    return -1;
  char *const *texts = *(char ***)place;
  for (size_t i = 0; texts[i] != NULL; i++) {
    const size_t length = strlen(texts[i]);
    if (length == 0 || length >= PATH_MAX)
      return error_set(error, "%s[%zu]: expected a path of 1 to %d bytes, got %zu", self->name, i,
                       PATH_MAX - 1, length);
  }
  return 0;
}

const struct step_field_type step_field_paths =
    CHECKED(TEXTS, Array, "an array of strings", read_paths);

static int read_ports(const struct step_field *self, cJSON *value, void *place,
                      struct error *error) {
  struct step_bytes *bytes = place;
  if (value == NULL)
    return 0;
  const size_t count = (size_t)cJSON_GetArraySize(value);
  if (count > self->maximum)
    return error_set(error, "%s: expected at most %u, got %zu", self->name, self->maximum, count);
  bytes->text = memory_zeros(count * sizeof(uint16_t) + 1);
  for (const cJSON *item = value->child; item != NULL; item = item->next) {
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s[%zu]", self->name, bytes->length / sizeof(uint16_t));
    const struct step_field port = {
        .name = path, .type = &step_field_integer, .maximum = UINT16_MAX};
    if (!is_whole_within(item, 0, UINT16_MAX))
      return reject_number(&port, item, 0, UINT16_MAX, error);
    const uint16_t number = (uint16_t)item->valuedouble;
    memcpy(bytes->text + bytes->length, &number, sizeof number);
    bytes->length += sizeof number;
  }
  return 0;
}

const struct step_field_type step_field_ports =
    CHECKED(BYTES, Array, "an array of whole numbers", read_ports);

static int check_variable(const char *field, const cJSON *item, struct error *error) {
  const char *name = item->string;
  if (name[0] == '\0')
    return error_set(error, "%s: expected non-empty names, got an empty one", field);
  const char *wrong = strchr(name, '=') != NULL ? "\"=\"" : has_nul(name) ? "NUL" : NULL;
  if (wrong == NULL && cJSON_IsString(item) && !has_nul(item->valuestring))
    return 0;
  char path[PATH_SIZE];
  make_path(path, field, name);
  return wrong == NULL
             ? check_text(path, item, error)
             : error_set(error, "%s: expected a name without %s, got one with it", path, wrong);
}

static int read_env(const struct step_field *self, cJSON *value, void *place, struct error *error) {
  char **texts = *(char ***)place = new_texts(value);
  if (value == NULL)
    return 0;
  if (step_field_names_unique(value, self->name, error) != 0)
    return -1;
  for (cJSON *item = value->child; item != NULL; item = item->next) {
    if (check_variable(self->name, item, error) != 0)
      return -1;
    size_t name = strlen(item->string), size = strlen(item->valuestring) + 1;
    char *text = *texts++ = memory_allocate(name + 1 + size);
    memcpy(text, item->string, name);
    text[name] = '=';
    memcpy(text + name + 1, item->valuestring, size);
  }
  return 0;
}

const struct step_field_type step_field_env =
    CHECKED(TEXTS, Object, "an object of strings", read_env);

/* --- objects --- */

int step_field_read(const struct step_field *self, const cJSON *object, const char *path,
                    void *place, struct error *error) {
  struct step_field field = *self;
  char name[PATH_SIZE];
  cJSON *value = cJSON_GetObjectItemCaseSensitive(object, self->name);
  if (cJSON_IsNull(value) && !self->type->accepts_null)
    value = NULL;
  if (path[0] != '\0') {
    (void)snprintf(name, sizeof name, "%s.%s", path, self->name);
    field.name = name;
  }
  if (field.type->is != NULL && (value != NULL ? !field.type->is(value) : field.required))
    return step_field_reject(field.name, expected_of(&field), value, error);
  return field.type->read(&field, value, (char *)place + field.offset, error);
}

int step_table_read(const struct step_table *self, const cJSON *object, const char *path,
                    void *place, struct error *error) {
  for (size_t i = 0; i < self->count; i++)
    if (step_field_read(&self->fields[i], object, path, place, error) != 0)
      return -1;
  return 0;
}

void step_table_release(const struct step_table *self, void *place, bool owns_texts) {
  for (size_t i = 0; i < self->count; i++) {
    void *field = (char *)place + self->fields[i].offset;
    const struct step_list *list = field;
    enum step_shape shape = self->fields[i].type->shape;
    if (shape == STEP_SHAPE_LIST) {
      for (size_t k = 0; k < list->count; k++)
        step_table_release(list->element, (char *)list->items + k * list->element->size,
                           owns_texts);
      free(list->items);
    } else if (shape == STEP_SHAPE_TEXTS) {
      char **texts = *(char ***)field;
      for (char **text = texts; owns_texts && text != NULL && *text != NULL; text++)
        free(*text);
      free(texts);
    } else if (shape == STEP_SHAPE_OBJECT) {
      void *object = *(void **)field;
      if (object != NULL)
        step_table_release(self->fields[i].element, object, owns_texts);
      free(object);
    } else if (shape != STEP_SHAPE_PLAIN && owns_texts) {
      free(*(char **)field); /* the text is the first member of step_bytes */
    }
  }
}

static int read_list(const struct step_field *self, cJSON *value, void *place,
                     struct error *error) {
  struct step_list *list = place;
  if (value == NULL)
    return 0;
  size_t count = (size_t)cJSON_GetArraySize(value);
  if (count == 0)
    return error_set(error, "%s: expected an array of objects, got an empty one", self->name);
  list->element = self->element;
  list->items = memory_zeros(count * self->element->size);
  for (const cJSON *item = value->child; item != NULL; item = item->next) {
    char path[PATH_SIZE], *item_place = (char *)list->items + list->count * self->element->size;
    (void)snprintf(path, sizeof path, "%s[%zu]", self->name, list->count++);
    if (!cJSON_IsObject(item))
      return step_field_reject(path, "an object", item, error);
    if (step_field_names_unique(item, path, error) != 0 ||
        step_table_read(self->element, item, path, item_place, error) != 0)
      return -1;
  }
  return 0;
}

const struct step_field_type step_field_list =
    CHECKED(LIST, Array, "an array of objects", read_list);

static bool has_field(const struct step_table *self, const char *name) {
  for (size_t i = 0; i < self->count; i++)
    if (strcmp(self->fields[i].name, name) == 0)
      return true;
  return false;
}

static int check_names(const struct step_table *self, const cJSON *object, const char *path,
                       struct error *error) {
  for (const cJSON *item = object->child; item != NULL; item = item->next) {
    char shown[PATH_SIZE];
    make_path(shown, path, item->string);
    if (!has_field(self, item->string))
      return error_set(error, "%s: unknown field", shown);
  }
  return step_field_names_unique(object, path, error);
}

static int read_object(const struct step_field *self, cJSON *value, void *place,
                       struct error *error) {
  const struct step_table *table = self->element;
  if (value == NULL)
    return 0;
  void *object = *(void **)place = memory_zeros(table->size);
  if (check_names(table, value, self->name, error) != 0 ||
      step_table_read(table, value, self->name, object, error) != 0)
    return -1;
  return table->check != NULL ? table->check(object, self->name, error) : 0;
}

const struct step_field_type step_field_object = CHECKED(OBJECT, Object, "an object", read_object);

/* --- numbers --- */

static int read_number(const struct step_field *self, cJSON *value, void *place,
                       struct error *error) {
  const struct step_field_type *type = self->type;
  double minimum = type->minimum < 0 ? type->minimum : self->minimum;
  double maximum = self->maximum > 0 ? self->maximum : type->maximum;
  double number = value != NULL ? value->valuedouble : self->fallback;
  if (value != NULL && !is_whole_within(value, minimum, maximum))
    return reject_number(self, value, minimum, maximum, error);
  if (number < 1 && type->zero_is_absent)
    number = self->fallback;
  if (type->size == sizeof(uint64_t))
    *(uint64_t *)place = (uint64_t)number;
  else if (number < 0)
    *(int *)place = (int)number;
  else
    *(unsigned *)place = (unsigned)number;
  return 0;
}

const struct step_field_type step_field_integer = {.read = read_number, .size = sizeof(unsigned)};

const struct step_field_type step_field_int32 = {
    .read = read_number, .size = sizeof(int), .minimum = INT32_MIN, .maximum = INT32_MAX};

#define ZERO_IS_ABSENT(TYPE, MINIMUM, MAXIMUM)                                                     \
  {                                                                                                \
    .read = read_number, .size = sizeof(TYPE), .minimum = (MINIMUM), .maximum = (MAXIMUM),         \
    .zero_is_absent = true                                                                         \
  }

const struct step_field_type step_field_count = ZERO_IS_ABSENT(unsigned, INT32_MIN, INT32_MAX);
const struct step_field_type step_field_offset =
    ZERO_IS_ABSENT(uint64_t, -JSON_EXACT_MAX, JSON_EXACT_MAX);

const struct step_field_type step_field_limit = {
    .read = read_number, .size = sizeof(uint64_t), .maximum = JSON_EXACT_MAX};

static int read_flag(const struct step_field *self, cJSON *value, void *place,
                     struct error *error) {
  (void)error;
  *(bool *)place = value != NULL ? cJSON_IsTrue(value) : self->fallback != 0;
  return 0;
}

const struct step_field_type step_field_flag = {
    .is = cJSON_IsBool, .expected = "true or false", .read = read_flag, .size = sizeof(bool)};

#define BLANKS " \t\n\v\f\r"

static bool is_blank(const char *text) {
  return text[strspn(text, BLANKS)] == '\0';
}

static bool is_chosen(const struct step_choice *choice, const cJSON *value) {
  bool has_number = choice->number != STEP_CHOICE_NO_NUMBER;
  if (cJSON_IsNumber(value))
    return has_number && value->valuedouble == choice->number;
  if (!cJSON_IsString(value))
    return false;
  const char *text = value->valuestring + strspn(value->valuestring, BLANKS);
  size_t length = strlen(choice->name);
  char *end;
  bool is_number = strtoll(text, &end, 10) == choice->number && end > text && is_blank(end);
  return (strncasecmp(text, choice->name, length) == 0 && is_blank(text + length)) ||
         (has_number && is_number);
}

/* Shows a word, which is no secret. */
static int reject_choice(const struct step_field *self, const cJSON *value, struct error *error) {
  char expected[160] = "one of ", shown[SHOWN_SIZE];
  for (const struct step_choice *choice = self->choices; choice->name != NULL; choice++) {
    size_t length = strlen(expected);
    (void)snprintf(expected + length, sizeof expected - length, "%s%s",
                   choice > self->choices ? ", " : "", choice->name);
  }
  const char *text = cJSON_GetStringValue(value);
  if (text == NULL || text[0] == '\0')
    return step_field_reject(self->name, expected, value, error);
  show(shown, text, strlen(text));
  return error_set(error, "%s: expected %s, got \"%s\"", self->name, expected, shown);
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
    .read = read_choice, .accepts_null = true, .size = sizeof(unsigned)};

static int read_word(const struct step_field *self, cJSON *value, void *place,
                     struct error *error) {
  unsigned chosen = 0;
  while (value != NULL && self->choices[chosen].name != NULL &&
         strcmp(self->choices[chosen].name, value->valuestring) != 0)
    chosen++;
  if (self->choices[chosen].name == NULL)
    return reject_choice(self, value, error);
  *(unsigned *)place = chosen;
  return 0;
}

const struct step_field_type step_field_word = {
    .is = cJSON_IsString, .expected = "a string", .read = read_word, .size = sizeof(unsigned)};
