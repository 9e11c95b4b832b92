#ifndef WIRE_STEP_FIELD_H
#define WIRE_STEP_FIELD_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "wire/error.h"

/*
 * One field of a Step: where it stands in the JSON, what it must be, and where its value goes. A
 * table of these is what a Step is; a further field is a further row, a further type of field a
 * further reader.
 *
 * A reader gets the field's value, NULL when the field is absent or null, and the place to write
 * to. It returns 0, or -1 with an error that names the field and what was expected. It may take
 * strings out of the value, and then owns them; what it wrote into the place before an error is
 * valid, so that the one who releases the Step releases it.
 */
struct step_field {
  const char *name;
  unsigned kinds; /* the kinds that have it: bits, 1u << enum step_kind */
  int (*read)(const struct step_field *self, cJSON *value, void *place, struct error *error);
  size_t offset; /* of the place in struct step */
  bool required; /* texts: absent is an error */
  /* Of a text the length in bytes, of an integer the value; maximum 0: a text without limit. */
  unsigned minimum;
  unsigned maximum;
  unsigned fallback; /* of an integer that is absent */
};

/* place: char *, which is replaced. Not written when absent or, where that is allowed, empty. */
int step_field_text(const struct step_field *self, cJSON *value, void *place, struct error *error);

/* place: char **, the array of strings and a NULL behind them. */
int step_field_texts(const struct step_field *self, cJSON *value, void *place, struct error *error);

/* place: char **, the object's members as "NAME=value" and a NULL behind them. */
int step_field_env(const struct step_field *self, cJSON *value, void *place, struct error *error);

/* place: unsigned. A whole number is one whichever way it is written: 600, 600.0, 6e2. */
int step_field_integer(const struct step_field *self, cJSON *value, void *place,
                       struct error *error);

/* Returns -1, and the error "<field>: expected <expected>, got <what the value is>". */
int step_field_refuse(const struct step_field *self, const char *expected, const cJSON *value,
                      struct error *error);

/*
 * Refuses an object that has a name twice; `path` goes before the name in the error. Takes n log n
 * time. Which of several is told is not defined.
 */
int step_field_unique(const cJSON *object, const char *path, struct error *error);

/* A text as it is shown in an error: printable ASCII, shortened; the size is with its NUL. */
#define STEP_FIELD_SHOWN_SIZE 41
void step_field_show(char out[STEP_FIELD_SHOWN_SIZE], const char *text, size_t length);

#endif
