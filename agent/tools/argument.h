#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/buffer.h"
#include "base/error.h"

/* The arguments of a tool as a table. From it, tool.c gets their JSON Schema, checks the arguments
   of a call, and translates them to the fields of a step. The hard part is to accept what models
   write, such as a number in quotes, without guessing. Pure. */
enum argument_type {
  ARGUMENT_TEXT,    /* without NUL; an empty optional text counts as absent */
  ARGUMENT_BYTES,   /* a string that may be empty and contain NULs */
  ARGUMENT_INTEGER, /* a whole number in any notation: 30, 30.0, 3e1 */
  ARGUMENT_TIMEOUT, /* an integer from 1 to the maximum of the limits */
  ARGUMENT_FLAG,
  ARGUMENT_CHOICE,
  ARGUMENT_TEXTS,   /* an array of strings without NUL */
  ARGUMENT_OBJECTS, /* an array of at least one object */
};

/* Short texts are arrays, because a pointer, which is relocated, takes four times its size in the
   program. */
struct argument {
  char name[16];
  char wire[16];          /* the field of the step; "" if the tool itself uses the argument */
  unsigned char type;     /* enum argument_type */
  bool required;          /* a required text must not be empty, either */
  unsigned short minimum; /* of an integer */
  unsigned short maximum; /* of an integer; 0 for none */
  const char *description;
  const char (*choices)[20];            /* ended by an empty one; the step gets the index */
  const struct argument_table *element; /* of objects */
};

struct argument_table {
  const struct argument *rows;
  size_t count;
};

#define ARGUMENT_TABLE(ROWS)                                                                       \
  { .rows = (ROWS), .count = sizeof(ROWS) / sizeof *(ROWS) }

struct argument_limits {
  unsigned timeout_default; /* the maximum applies to it, too */
  unsigned timeout_maximum;
  bool clamps_timeout; /* a timeout out of range becomes the nearest one instead of an error */
};

/* Returns the member of this name, or NULL if it is absent or null. `arguments` may be NULL. */
cJSON *argument_get(const cJSON *arguments, const char *name);

/* Returns `timeout` or its default, within the limits. */
unsigned argument_timeout(const cJSON *arguments, const struct argument_limits *limits);

/* Adds the JSON Schema. */
void argument_table_schema(const struct argument_table *self, const struct argument_limits *limits,
                           struct buffer *out);

/* Checks the arguments of `owner`, which may be NULL, and translates them to fields of a step; the
   path of the outermost ones is "". Where a number, a boolean or an array is expected, a text with
   its JSON ("30", "true", "[…]") becomes that value, because models send both. An integer that is
   too large for a field becomes the largest one. Returns 0, or -1 with an error that names the
   argument and what was expected, or all of them. */
int argument_table_accept(const struct argument_table *self, const char *owner, const char *path,
                          const struct argument_limits *limits, cJSON *arguments,
                          struct error *error);
