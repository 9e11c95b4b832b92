#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "wire/policy.h"
#include "wire/step_field.h"

/*
 * A step as a server sends it: it is parsed, checked, and packed for a supervisor. The frontends
 * parse payloads, and the tools make steps. The hard part is a rejected step, which must be
 * answered under its own id.
 */

/* The ID that is echoed if a step's own could not be read. */
#define STEP_NIL_ID "00000000-0000-0000-0000-000000000000"

#define STEP_PAYLOAD_MAX ((size_t)64 * 1024 * 1024) /* bytes */
#define STEP_ID_MAX 1024                            /* bytes; it is part of every event */
#define STEP_SECRETS_MAX 256                        /* the number of `secrets` */
#define STEP_REPLY_TO_MAX 64                        /* bytes */
#define STEP_TIMEOUT_MAX_SECONDS (365 * 24 * 3600)
#define STEP_TIMEOUT_DEFAULT_SECONDS 600

/* The versions of the protocol that this program speaks. */
#define STEP_VERSION_OLDEST 1
#define STEP_VERSION_NEWEST 2

/* The wire format of a kind of step. Static. */
struct step_kind {
  const char *name; /* the value of `kind` */
  int number;       /* which may be sent instead, or STEP_CHOICE_NO_NUMBER */
  /* The name of the field with the step's object, a required text: the command of a run, a path.
     NULL for a kind that nothing is executed for. */
  const char *target;
  struct step_table table; /* the other fields that only this kind has */
};

/* The kinds that are requests to the agent itself. `read` is only a control message. */
extern const struct step_kind step_shutdown, step_cancel, step_read;

/* The fields of a `read`. */
struct read_fields {
  uint64_t seq; /* the reader has read the events up to this one */
};

/* A step as it was sent, checked. All strings are UTF-8 without NUL, and owned by the step. */
struct step {
  int schema_version; /* as sent, rejected or not; 1 if it is absent or could not be read */
  char *step_id;      /* never NULL after step_parse; a cancel has the ID of the step to stop */
  char *reply_to;     /* where the result goes, rejected or not; NULL: to the usual place */
  const struct step_kind *kind;
  /* For a kind with a target, else 0 and NULL: */
  char *target;
  char *working_directory; /* NULL if it is absent or empty */
  unsigned timeout_seconds;
  char **env;                   /* "NAME=value", each name once, ended by NULL; or NULL */
  bool flow_control;            /* its events stay in the stream until they are read */
  char **secrets;               /* names of variables with secret values, ended by NULL; or NULL */
  struct policy_fence *fence;   /* see wire/policy.h; NULL: none */
  struct policy_limits *limits; /* NULL: none */
  void *fields;                 /* of this kind, in the struct of its table */
  /* Set by the agent's own tools, never parsed: the content is text for a model, with warnings in
     it, and a leading "~" of a path is the home directory. */
  bool for_model;
  bool is_fenced; /* set by the engine, never parsed: a sandbox policy counts */

  bool borrows_texts; /* set by step_unpack: all texts lie within the packed bytes */
  size_t memory;      /* an upper bound for the bytes it holds, allocation overhead included */
};

/* Whether the step is executed and answered. Otherwise it is a request to the agent itself. */
bool step_is_work(const struct step *self);

/* Returns the schemaVersion of the step's events and result, rejected or not: 1 for a step of
   version 1, else 2. */
int step_answer_version(const struct step *self);

/* Returns the value of a variable in the step's own env, or NULL. */
const char *step_variable(const struct step *self, const char *name);

/*
 * Parses one payload: JSON of `length` bytes, which need no NUL. `kinds` are the known kinds, at
 * most STEP_KINDS_MAX, ended by NULL; the first is the default.
 *
 * Returns 0, or -1 if it rejects the step. The error then names the field and what was expected,
 * and shows no value except a number. A rejected step has a valid schema_version and step_id. The
 * ID is that of the payload if it could be read, also from broken JSON, or else STEP_NIL_ID; a
 * cancel gets STEP_NIL_ID, because its stepId belongs to another step. The caller calls
 * step_release in any case.
 *
 * Memory beside the payload is at most three times `length` for strings and 100 bytes for each JSON
 * value; if that much cannot be allocated, the payload is rejected.
 */
#define STEP_KINDS_MAX 32
int step_parse(struct step *self, const struct step_kind *const *kinds, const char *payload,
               size_t length, struct error *error);

/* Like step_parse, for a payload that need not have a stepId, because its place names the step. */
int step_parse_as(struct step *self, const struct step_kind *const *kinds, const char *step_id,
                  const char *payload, size_t length, struct error *error);

/* Makes a step without parsing; its fields are all zeros. The texts are copied; the directory may
   be NULL. */
void step_init(struct step *self, const struct step_kind *kind, const char *step_id,
               const char *target, const char *working_directory, unsigned timeout_seconds);

/* Accepts a step that is all zeros, and leaves it all zeros. */
void step_release(struct step *self);

/* Pack a parsed step for another process of the same build, and unpack it: its texts stay in
   `packed`, which must not change before step_release. `kinds` is as for step_parse and has the
   step's kind. step_unpack returns 0, or -1 if the bytes are no whole step; the caller calls
   step_release in any case. */
void step_pack(const struct step *self, const struct step_kind *const *kinds, struct buffer *out);
int step_unpack(struct step *self, const struct step_kind *const *kinds, char *packed,
                size_t length);
