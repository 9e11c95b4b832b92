#ifndef AGENT_DOORS_FILES_EXEC_REQUEST_H
#define AGENT_DOORS_FILES_EXEC_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/buffer.h"
#include "base/error.h"
#include "wire/step.h"

/*
 * What a file exec-request-<id>.json says: the one place that knows its fields. Pure.
 *
 *   {"id":"17…","command":"ls","args":["-l"],"workDir":"/workspace","timeout":30,
 *    "target":"k8s-ops","argv":["ls","-l"],"stdin":"…","_meta":{…}}
 *
 * `argv` that is not empty is executed without a shell, and `command` and `args` do not count; else
 * `command` and `args`, joined by blanks, are one line for a shell. null counts as absent, and
 * other fields are ignored.
 */
#define EXEC_REQUEST_PREFIX "exec-request-"
#define EXEC_REQUEST_SUFFIX ".json"

/* The longest id: a file name has 255 bytes. */
#define EXEC_REQUEST_ID_MAX 237

/* The largest request, in bytes. */
#define EXEC_REQUEST_MAX ((size_t)8 * 1024 * 1024)

/* The directory of a request that names none. */
#define EXEC_REQUEST_DIRECTORY "/workspace"

enum exec_request_state {
  EXEC_REQUEST_READY,
  EXEC_REQUEST_REFUSED, /* it is JSON, but cannot be executed; `target` is valid */
  EXEC_REQUEST_SHORT,   /* it ends too early: perhaps it is still being written */
  EXEC_REQUEST_BROKEN   /* it is not JSON, whatever may come */
};

struct exec_request {
  cJSON *root;   /* what the texts below are in */
  char *target;  /* in lower case, without white space; "": anyone. NULL in a SHORT or BROKEN one */
  bool other_id; /* it has another `id` than the file's name */
  const cJSON *argv;     /* strings, one at least; NULL: a line for a shell */
  const char *command;   /* not empty, without argv */
  const cJSON *args;     /* strings; or NULL */
  const char *directory; /* never NULL */
  const char *input;     /* NULL: none */
  size_t input_length;
  unsigned timeout_seconds;
};

/* What a request that does not say so has. */
struct exec_request_defaults {
  const char *directory;
  unsigned timeout_seconds;
  unsigned timeout_max_seconds; /* a longer one is changed to this */
};

/* Reads a whole request, or says why not in `error`. The id is that of the file's name. The caller
   ends with exec_request_release, whatever comes back. */
enum exec_request_state exec_request_parse(struct exec_request *self, const char *text,
                                           size_t length, const char *id,
                                           const struct exec_request_defaults *defaults,
                                           struct error *error);
void exec_request_release(struct exec_request *self);

/* Whether it is for the sidecar of this pack; NULL or "": for any. */
bool exec_request_is_for(const struct exec_request *self, const char *pack);

/* Makes the step of kind `run`, for step_release, with this id. `shell` is NULL only where there is
   argv; `directory` replaces the request's unless it is NULL; `env`, NAME=value ended by NULL, is taken
   over. */
void exec_request_step(const struct exec_request *self, const char *id, const char *shell,
                       const char *directory, char **env, struct step *out);

/* Adds what is executed, for a log. */
void exec_request_add_text(const struct exec_request *self, struct buffer *out);

/* Whether a file's name is that of a request; its id is then in `*id`, `*id_length`, inside of it. */
bool exec_request_name(const char *name, const char **id, size_t *id_length);

/* Whether an id is one: 1 to EXEC_REQUEST_ID_MAX bytes, UTF-8, no control character. */
bool exec_request_id_is_valid(const char *id, size_t length);

#endif
