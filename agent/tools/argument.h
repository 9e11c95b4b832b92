#ifndef AGENT_TOOLS_ARGUMENT_H
#define AGENT_TOOLS_ARGUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/buffer.h"
#include "base/error.h"

/* The arguments of a tool as a table: their JSON Schema, whether a call's are what it says, and
   what they are in a Step. Pure. */
enum argument_type {
  ARGUMENT_TEXT,    /* without NUL; an optional one that is empty counts as absent */
  ARGUMENT_BYTES,   /* a string that may be empty and hold NUL */
  ARGUMENT_INTEGER, /* a whole number however it is written: 30, 30.0, 3e1 */
  ARGUMENT_TIMEOUT, /* an integer from 1 to the limits' maximum */
  ARGUMENT_FLAG,
  ARGUMENT_CHOICE,
  ARGUMENT_TEXTS,   /* an array of strings without NUL */
  ARGUMENT_OBJECTS, /* an array of objects, at least one */
};

/* Its short texts are arrays: a pointer takes four times its size in the program, since it is
   relocated. */
struct argument {
  char name[16];
  char wire[16];          /* the field of the Step; "": the tool itself does something with it */
  unsigned char type;     /* enum argument_type */
  bool required;          /* of a text: and not empty */
  unsigned short minimum; /* of an integer */
  unsigned short maximum; /* of an integer; 0: none */
  const char *description;
  const char (*choices)[20];            /* ended by an empty one; the Step has the number of one */
  const struct argument_table *element; /* of objects */
};

struct argument_table {
  const struct argument *rows;
  size_t count;
};

#define ARGUMENT_TABLE(ROWS)                                                                       \
  { .rows = (ROWS), .count = sizeof(ROWS) / sizeof *(ROWS) }

struct argument_limits {
  unsigned timeout_default; /* more than the maximum counts as that */
  unsigned timeout_maximum;
  bool clamps_timeout; /* one out of range is changed to the nearest; else the call is refused */
};

/* The member of this name; NULL when it is absent or null. `arguments` may be NULL. */
cJSON *argument_get(const cJSON *arguments, const char *name);

/* That of `timeout`, within the limits. */
unsigned argument_timeout(const cJSON *arguments, const struct argument_limits *limits);

void argument_table_schema(const struct argument_table *self, const struct argument_limits *limits,
                           struct buffer *out);

/* Checks the arguments, which may be NULL. A text that is the JSON of a number, a boolean or an
   array ("30", "true", "[…]") becomes that value where one is expected: models send both. Returns
   0, or -1 with the error, which names the argument and what was expected, or all arguments that
   `owner` takes. */
int argument_table_accept(const struct argument_table *self, const char *owner,
                          const struct argument_limits *limits, cJSON *arguments,
                          struct error *error);

/* Makes of arguments that were checked what the fields of a step read: of an integer that is too
   large for them the largest. They may be NULL. */
void argument_table_translate(const struct argument_table *self, cJSON *arguments);

#endif
