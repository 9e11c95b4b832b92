#ifndef WIRE_STEP_FIELD_H
#define WIRE_STEP_FIELD_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/error.h"

/* One field of a Step: its name in the JSON, what it must be, and where its value goes. A table of
   these describes a Step: a new field is a new row, a new type of field a new reader. */
struct step_field {
  const char *name;
  const struct step_field_type *type;
  size_t offset; /* of the place in the struct that the table is for */
  bool required; /* of a text, bytes or a list: it must not be absent */
  /* Of a text the length in bytes, of texts their number, of an integer or a count the value.
     Maximum 0: no limit of its own. */
  unsigned minimum, maximum;
  unsigned fallback; /* of an integer, a count or a flag that is absent; of an unknown choice */
  const struct step_choice *choices; /* of a choice: ended by one without a name */
  const struct step_table *element;  /* of a list */
};

/* What can be chosen. */
struct step_choice {
  const char *name;
  int number; /* what may be sent in place of the name; or STEP_CHOICE_NO_NUMBER */
};

#define STEP_CHOICE_NO_NUMBER (-1)

/* What is read into one struct. */
struct step_table {
  const struct step_field *fields;
  size_t count;
  size_t size; /* of the struct */
};

/* A row: the name in the JSON, the type's name behind step_field_, where the value goes, and what
   else is not 0. */
#define STEP_FIELD(NAME, TYPE, STRUCT, MEMBER, ...)                                                \
  { .name = (NAME), .type = &step_field_##TYPE, .offset = offsetof(STRUCT, MEMBER), __VA_ARGS__ }

#define STEP_TABLE(FIELDS, STRUCT)                                                                 \
  { .fields = (FIELDS), .count = sizeof(FIELDS) / sizeof *(FIELDS), .size = sizeof(STRUCT) }

/* Reads one field of an object, or all of them, into the struct at `place`, which is all zeros. An
   error names a field "<path>.<name>"; the path of the outermost object is "". Either way the
   caller ends with step_table_release. */
int step_field_read(const struct step_field *self, const cJSON *object, const char *path,
                    void *place, struct error *error);
int step_table_read(const struct step_table *self, const cJSON *object, const char *path,
                    void *place, struct error *error);

/* Frees what the fields own; `owns_texts`: the texts, too, which else are somebody else's. */
void step_table_release(const struct step_table *self, void *place, bool owns_texts);

/* What a place holds. */
enum step_shape {
  STEP_SHAPE_PLAIN, /* a number or a flag */
  STEP_SHAPE_TEXT,
  STEP_SHAPE_BYTES,
  STEP_SHAPE_TEXTS,
  STEP_SHAPE_LIST
};

/* `read` gets the field's value, of its type, NULL when the field is absent or null (but see
   takes_null), and the place to write to, all zeros. It returns 0, or -1 with an error that names
   the field and what was expected. It may move strings out of the value into the place. */
struct step_field_type {
  enum step_shape shape;
  cJSON_bool (*is)(const cJSON *value); /* NULL: what is expected is for `read` to say */
  const char *expected;                 /* else */
  int (*read)(const struct step_field *self, cJSON *value, void *place, struct error *error);
  bool takes_null;         /* null is a value, and does not count as absent */
  size_t size;             /* of a plain one */
  double minimum, maximum; /* of a number, where the field has no bounds of its own */
  bool zero_is_absent;     /* and what is below it */
};

/* place: char *. Not written when absent or, where that is allowed, empty. */
extern const struct step_field_type step_field_text;

/* place: struct step_bytes; may be empty and hold NUL. */
extern const struct step_field_type step_field_bytes;

struct step_bytes {
  char *text; /* with a NUL after it; NULL when absent */
  size_t length;
};

/* place: char **, the array's strings, ended by NULL. */
extern const struct step_field_type step_field_texts;

/* place: char **, the object's members as "NAME=value", ended by NULL. */
extern const struct step_field_type step_field_env;

/* place: unsigned. Accepts a whole number however it is written: 600, 600.0, 6e2. */
extern const struct step_field_type step_field_integer;

/* place: int. Any whole number of 32 bits, negative ones too. */
extern const struct step_field_type step_field_int32;

/* place: unsigned. An integer up to the maximum, which is 2^31-1 where the field has none. One
   below 1 counts as absent: senders in languages without an absent number send 0. */
extern const struct step_field_type step_field_count;

/* place: uint64_t; 0 when absent. The same up to JSON_EXACT_MAX. */
extern const struct step_field_type step_field_offset;

/* place: bool. */
extern const struct step_field_type step_field_flag;

/* place: unsigned, the index of one of `choices`; 0 when absent. It is sent as the name, in upper
   or lower case, as the number, or as the number in a string; space around a string does not count.
   An array or an object is refused. Any other value that is none of the choices, null and booleans
   too, is read as the fallback, so that the step of a newer sender is not refused. */
extern const struct step_field_type step_field_choice;

/* place: struct step_list, of an array of objects, which has one at least. */
extern const struct step_field_type step_field_list;

struct step_list {
  const struct step_table *element;
  void *items; /* structs, one after the other; NULL when absent */
  size_t count;
};

/* Returns -1 with the error "<path>: expected <expected>, got <type of the value>". */
int step_field_reject(const char *path, const char *expected, const cJSON *value,
                      struct error *error);

/* Checks that no name is in the object twice. Returns 0, or -1 with "<path>.<name>: expected once,
   got it twice" for one of those that are; the path of the outermost object is "". Takes n log n
   time, whatever the names are. */
int step_field_names_unique(const cJSON *object, const char *path, struct error *error);

#endif
