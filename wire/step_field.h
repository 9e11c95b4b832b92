#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/error.h"

/* A field of a step: its name in the JSON, what it must be, and where its value goes. A table of
   fields describes a step: a new field is a new row, a new type of field is a new reader. */
struct step_field {
  const char *name;
  const struct step_field_type *type;
  size_t offset; /* of the destination, in the struct of the table */
  bool required; /* for a text, bytes or a list */
  /* Bounds for the length of a text in bytes, the number of texts, or the value of an integer or a
     count. A maximum of 0 is no bound. */
  unsigned minimum, maximum;
  unsigned fallback; /* for an absent integer, count or flag, and for an unknown choice */
  const struct step_choice *choices; /* ended by one without a name */
  const struct step_table *element;  /* of a list or an object */
};

struct step_choice {
  const char *name;
  int number; /* which may be sent instead, or STEP_CHOICE_NO_NUMBER */
};

#define STEP_CHOICE_NO_NUMBER (-1)

/* The fields that are read into one struct. */
struct step_table {
  const struct step_field *fields;
  size_t count;
  size_t size; /* of the struct */
  /* Of an object; may be NULL. Checks how its fields go together: returns 0, or -1 with an error
     that names one. */
  int (*check)(const void *place, const char *path, struct error *error);
};

/* A row: the name in the JSON, the name of the type behind step_field_, the destination, and other
   members that are not 0. */
#define STEP_FIELD(NAME, TYPE, STRUCT, MEMBER, ...)                                                \
  { .name = (NAME), .type = &step_field_##TYPE, .offset = offsetof(STRUCT, MEMBER), __VA_ARGS__ }

#define STEP_TABLE(FIELDS, STRUCT)                                                                 \
  { .fields = (FIELDS), .count = sizeof(FIELDS) / sizeof *(FIELDS), .size = sizeof(STRUCT) }

/* Read one field of an object, or all of them, into the struct at `place`, which is all zeros. An
   error names the field "<path>.<name>"; the path of the outermost object is "". The caller calls
   step_table_release in any case. */
int step_field_read(const struct step_field *self, const cJSON *object, const char *path,
                    void *place, struct error *error);
int step_table_read(const struct step_table *self, const cJSON *object, const char *path,
                    void *place, struct error *error);

/* Frees what the fields own; their texts only if `owns_texts`. */
void step_table_release(const struct step_table *self, void *place, bool owns_texts);

/* The representation of a value in the struct. */
enum step_shape {
  STEP_SHAPE_PLAIN, /* a number or a flag */
  STEP_SHAPE_TEXT,
  STEP_SHAPE_BYTES,
  STEP_SHAPE_TEXTS,
  STEP_SHAPE_LIST,
  STEP_SHAPE_OBJECT /* for the agent alone: it is not packed */
};

/* `read` gets the value, which has the right JSON type or is NULL if it is absent or null, and the
   destination, which is all zeros. It returns 0, or -1 with an error that names the field and what
   was expected. It may move strings out of the value. */
struct step_field_type {
  enum step_shape shape;
  cJSON_bool (*is)(const cJSON *value); /* the check of the JSON type; NULL if `read` does it */
  const char *expected;                 /* what the error of that check says */
  int (*read)(const struct step_field *self, cJSON *value, void *place, struct error *error);
  bool accepts_null;       /* null is a value and does not count as absent */
  size_t size;             /* of a plain value */
  double minimum, maximum; /* of a number, if the field has no bounds of its own */
  bool zero_is_absent;     /* and so is everything below */
};

struct step_bytes {
  char *text; /* with a final NUL; NULL if it is absent */
  size_t length;
};

struct step_list {
  const struct step_table *element;
  void *items; /* an array of structs; NULL if it is absent */
  size_t count;
};

extern const struct step_field_type
    step_field_text,     /* char *; NULL if the text is absent or, where that is allowed, empty */
    step_field_bytes,    /* struct step_bytes, which may be empty and contain NULs */
    step_field_reply_to, /* char *, the end of the name of a key; see PROTOCOL.md */
    step_field_texts,    /* char **, the strings of an array, ended by NULL */
    step_field_paths,    /* the same, each with 1 to PATH_MAX - 1 bytes; NULL if it is absent */
    step_field_ports,    /* struct step_bytes of uint16_t; NULL if it is absent */
    step_field_env,      /* char **, the members of an object as "NAME=value", ended by NULL */
    step_field_integer,  /* unsigned, a whole number in any notation: 600, 600.0, 6e2 */
    step_field_int32,    /* int, any whole number of 32 bits */
    /* unsigned, an integer up to the maximum, by default 2^31-1. A value below 1 counts as absent,
       because senders in languages without an absent number send 0. */
    step_field_count,
    step_field_offset, /* uint64_t, the same up to JSON_EXACT_MAX; 0 if it is absent */
    step_field_limit,  /* uint64_t, a whole number up to JSON_EXACT_MAX; 0 if it is absent */
    step_field_flag,   /* bool */
    step_field_list,   /* struct step_list, an array of at least one object */
    /* A pointer to the struct of the element; NULL if it is absent. Other names than those of the
       element are rejected, because an unknown one may restrict the step. */
    step_field_object,
    step_field_word, /* unsigned, the index of one of `choices` by its exact name; 0 if absent */
    /* unsigned, the index of one of `choices`; 0 if it is absent. The value is the name in any case
       of letters, the number, or the number in a string; space around a string is ignored. An array
       or an object is rejected. Any other value, including null and booleans, becomes the fallback,
       so that the step of a newer sender is not rejected. */
    step_field_choice;

/* Sets the error "<path>: expected <expected>, got <type of the value>" and returns -1. */
int step_field_reject(const char *path, const char *expected, const cJSON *value,
                      struct error *error);

/* Checks that an object has no name twice. Returns 0, or -1 with "<path>.<name>: expected once, got
   it twice"; the path of the outermost object is "". Takes n log n time, whatever the names are. */
int step_field_names_unique(const cJSON *object, const char *path, struct error *error);
