#ifndef WIRE_STEP_H
#define WIRE_STEP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "wire/step_field.h"

/* Echoed where a step's own id could not be read. */
#define STEP_NIL_ID "00000000-0000-0000-0000-000000000000"

/* The largest payload, in bytes; a larger one is rejected. */
#define STEP_PAYLOAD_MAX ((size_t)64 * 1024 * 1024)

/* The longest stepId, in bytes; it goes into every event. */
#define STEP_ID_MAX 1024

/* The versions of the protocol that this program speaks. */
#define STEP_VERSION_OLDEST 1
#define STEP_VERSION_NEWEST 2

/* The longest timeoutSeconds, a year, and that of a step without one. */
#define STEP_TIMEOUT_MAX_SECONDS (365 * 24 * 3600)
#define STEP_TIMEOUT_DEFAULT_SECONDS 600

/* The most `secrets` of a step. */
#define STEP_SECRETS_MAX 256

/* What a kind of step is on the wire. Static. */
struct step_kind {
  /* The value of `kind`. A number may be sent in its place; or STEP_CHOICE_NO_NUMBER. */
  const char *name;
  int number;
  /* The field that says what it is about, a text, required, not empty: the command of a run, a
     path; NULL: it has none, and nothing is run for it. */
  const char *target;
  struct step_table table; /* the other fields that only this kind has */
};

/* The kinds that are orders to the agent itself. */
extern const struct step_kind step_shutdown;
extern const struct step_kind step_cancel;

/* One Step as it was sent, checked. All strings are UTF-8 without NUL, owned by the step. */
struct step {
  int schema_version; /* as sent, rejected or not; 1 when absent, or when it could not be read */
  char *step_id;      /* not NULL after step_parse, rejected or not; of a cancel: whom to stop */
  const struct step_kind *kind;
  /* Of a kind that has a target, else 0 and NULL: */
  char *target;
  char *working_directory; /* NULL when the step names none or an empty one */
  unsigned timeout_seconds;
  char **env; /* "NAME=value", each name once, ended by NULL; may be NULL: none */
  char *
      *secrets; /* names of variables whose values are not to be shown, ended by NULL; NULL: none */
  void *fields; /* the kind's own, in the struct of its table */
  /* Of the agent's own tools, never parsed: the content is text as a model reads it, warnings
     included, where the kind has such; and a "~" at the beginning of a path is the home
     directory. */
  bool for_model;

  bool borrows_texts; /* of step_unpack: all of them are within what was packed */
  size_t memory; /* bytes that it holds, at the most: its strings, and a pointer and the overhead of
                    an allocation for each value */
};

/* True for a step that runs and is answered, false for an order to the agent itself. */
bool step_is_work(const struct step *self);

/* The schemaVersion of its events and its result, rejected or not: 1 of a step of 1, else 2. */
int step_answer_version(const struct step *self);

/* The value of a variable in its own env; NULL: there is none. */
const char *step_variable(const struct step *self, const char *name);

/* The most kinds that step_parse takes. */
#define STEP_KINDS_MAX 32

/*
 * Parses one payload (JSON, `length` bytes, no NUL needed after them). `kinds` lists the known
 * kinds, ended by NULL, at most STEP_KINDS_MAX; a step that names none is of the first. Ignores
 * fields that the kind does not have. Returns 0, or -1 when it rejects the step. Then error->text
 * names the field and what was expected, and shows no value except a number; the error of an
 * unknown kind is the sentence that servers know (wire/PROTOCOL.md, Step). Of a rejected step two
 * members are valid: schema_version, and step_id. That is the payload's where it could be read,
 * also from broken JSON, else STEP_NIL_ID; and STEP_NIL_ID for a cancel, whose stepId is another
 * step's. Either way the caller ends with step_release.
 *
 * Time is linear in `length`, except that names are sorted. Memory, beside the payload, is at most
 * three times `length` for strings and 100 bytes for each value of the JSON, of which there are at
 * most JSON_TEXT_VALUES_MAX; a payload for which there is not enough memory is rejected.
 */
int step_parse(struct step *self, const struct step_kind *const *kinds, const char *payload,
               size_t length, struct error *error);

/* A step that was not parsed, with fields that are all zeros. The texts are copied; a directory of
   NULL is none. */
void step_init(struct step *self, const struct step_kind *kind, const char *step_id,
               const char *target, const char *working_directory, unsigned timeout_seconds);

/* May be called for a step that is all zeros. Leaves it all zeros. */
void step_release(struct step *self);

/* From one process of this program to another one of the same build: adds what step_parse has made
   of the step, in the order of its tables. The kind is one of `kinds`, which is as for
   step_parse. */
void step_pack(const struct step *self, const struct step_kind *const *kinds, struct buffer *out);

/* Its texts stay in `packed`, which the caller may change only after step_release. Nothing is
   checked. Returns 0, or -1 when these bytes are no whole step; either way the caller ends with
   step_release. */
int step_unpack(struct step *self, const struct step_kind *const *kinds, char *packed,
                size_t length);

#endif
