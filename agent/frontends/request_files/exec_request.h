#ifndef AGENT_FRONTENDS_REQUEST_FILES_EXEC_REQUEST_H
#define AGENT_FRONTENDS_REQUEST_FILES_EXEC_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "agent/engine/execution_result.h"
#include "base/buffer.h"
#include "base/error.h"
#include "wire/step.h"

/*
 * What a file exec-request-<id>.json says, and what is written to its exec-result-<id>.json: the
 * one place that knows their fields. Pure.
 *
 *   {"id":"17…","command":"ls","args":["-l"],"workDir":"/workspace","timeout":30,
 *    "target":"k8s-ops","argv":["ls","-l"],"stdin":"…","_meta":{…}}
 *
 *   {"id":"17…","exitCode":0,"stdout":"…","stderr":"","timedOut":false}
 *
 * `argv` that is not empty is executed without a shell, and `command` and `args` do not count; else
 * `command` and `args`, joined by blanks, are one line for a shell. null counts as absent, and
 * other fields are ignored. A result has always all of its fields, in one line.
 */
#define EXEC_REQUEST_PREFIX "exec-request-"
#define EXEC_RESULT_PREFIX "exec-result-"
#define EXEC_SUFFIX ".json"

/* The longest id: a file name has 255 bytes. */
#define EXEC_REQUEST_ID_MAX 237

/* The largest request, in bytes. */
#define EXEC_REQUEST_MAX ((size_t)8 * 1024 * 1024)

/* The bytes of each stream of a result; more are cut at a character's end, and EXEC_RESULT_CUT
   follows. */
#define EXEC_RESULT_STREAM_MAX ((size_t)51200)
#define EXEC_RESULT_CUT "...(truncated)"

/* The directory of a request that names none. */
#define EXEC_REQUEST_DIRECTORY "/workspace"

enum request_found {
  REQUEST_READY,
  REQUEST_REFUSED,   /* it is JSON, but cannot be executed: to be answered with the error */
  REQUEST_SHORT,     /* it ends too early: perhaps it is still being written */
  REQUEST_BROKEN,    /* it is not JSON, whatever may come */
  REQUEST_OF_OTHERS, /* for another sidecar */
  /* Of a file, not of its text: */
  REQUEST_NONE,       /* something that is no request; the error says what */
  REQUEST_UNREADABLE, /* now; the error says why */
  REQUEST_GONE
};

/* Whole when it is READY. */
struct exec_request {
  cJSON *root;           /* what the texts below are in */
  bool other_id;         /* it has another `id` than the file's name */
  const cJSON *argv;     /* strings, one at least; NULL: a line for a shell */
  const char *command;   /* not empty, without argv */
  const cJSON *args;     /* strings; or NULL */
  const char *directory; /* never NULL */
  const char *input;     /* NULL: none */
  size_t input_length;
  unsigned timeout_seconds;
  const char *traceparent; /* of `_meta`; NULL: none */
};

/* Whose requests are read, and what those that do not say so have. Nothing is owned. */
struct exec_request_rules {
  const char *pack;      /* of this sidecar; NULL or "": it takes all */
  const char *directory; /* NULL: EXEC_REQUEST_DIRECTORY */
  unsigned timeout_seconds;
  unsigned timeout_max_seconds; /* a longer one is changed to this */
};

/* Reads a whole request, or says why not in `error`. The id is that of the file's name. The caller
   ends with exec_request_release, whatever comes back. */
enum request_found exec_request_parse(struct exec_request *self, const char *text, size_t length,
                                      const char *id, const struct exec_request_rules *rules,
                                      struct error *error);
void exec_request_release(struct exec_request *self);

/* Makes the step of kind `run`, for step_release, with this id, to run in this directory. `shell`
   is NULL only where there is argv; `env`, NAME=value ended by NULL, is taken over. */
void exec_request_step(const struct exec_request *self, const char *id, const char *shell,
                       const char *directory, char **env, struct step *out);

/* Returns -1 and the error if the line for a shell is longer than the kernel accepts. */
int exec_request_check_line(const struct exec_request *self, struct error *error);

/* Adds what is executed, for a log. */
void exec_request_add_text(const struct exec_request *self, struct buffer *out);

/* Whether an id is one: 1 to EXEC_REQUEST_ID_MAX bytes, UTF-8, no control character. */
bool exec_request_id_is_valid(const char *id);

/* Adds the result. The streams are without their trailing line endings; bytes that are not UTF-8
   become U+FFFD. `message` is this program's, in the last line of stderr, which is never cut; "":
   none. `stream_max`: bytes of each stream, EXEC_RESULT_STREAM_MAX or less. */
void exec_request_add_result(const char *id, const struct execution_result *end,
                             const char *message, size_t stream_max, struct buffer *out);

#endif
