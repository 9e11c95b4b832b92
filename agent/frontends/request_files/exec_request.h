#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/engine/execution_result.h"
#include "agent/frontends/request_files/env_files.h"
#include "base/buffer.h"
#include "base/error.h"
#include "wire/step.h"

/*
 * Parses exec-request-<id>.json and writes exec-result-<id>.json; no other module knows their
 * fields.
 *
 *   {"id":"17…","command":"ls","args":["-l"],"workDir":"/workspace","timeout":30,
 *    "target":"k8s-ops","argv":["ls","-l"],"stdin":"…","_meta":{…}}
 *
 *   {"id":"17…","exitCode":0,"stdout":"…","stderr":"","timedOut":false}
 *
 * A non-empty `argv` is executed without a shell, and `command` and `args` are ignored; else
 * `command` and `args`, joined by blanks, are one line for a shell. null counts as absent, and
 * other fields are ignored. A result always has all of its fields, in one line.
 */
#define EXEC_REQUEST_PREFIX "exec-request-"
#define EXEC_RESULT_PREFIX "exec-result-"
#define EXEC_SUFFIX ".json"

/* The longest id: a file name has at most 255 bytes. */
#define EXEC_REQUEST_ID_MAX 237

/* The largest request, in bytes. */
#define EXEC_REQUEST_MAX ((size_t)8 * 1024 * 1024)

/* The most bytes of each stream of a result. A longer one is cut after a whole character, and
   EXEC_RESULT_CUT follows. */
#define EXEC_RESULT_STREAM_MAX ((size_t)51200)
#define EXEC_RESULT_CUT "...(truncated)"

/* The directory of a request that names none. */
#define EXEC_REQUEST_DIRECTORY "/workspace"

enum request_found {
  REQUEST_READY,
  REQUEST_REFUSED,   /* it is JSON, but cannot be executed; the error is its answer */
  REQUEST_SHORT,     /* it ends too early: it may still be written */
  REQUEST_BROKEN,    /* it is not JSON, whatever follows */
  REQUEST_OF_OTHERS, /* it is for another sidecar */
  /* These are of a file, not of its text: */
  REQUEST_NONE,       /* not a regular file; the error names its type */
  REQUEST_LONG,       /* it has more bytes than are read now */
  REQUEST_UNREADABLE, /* it cannot be read now; the error says why */
  REQUEST_GONE
};

struct exec_request {
  struct step step; /* of kind `run` */
  bool in_shell;    /* it has a line for a shell */
  bool other_id;    /* its `id` is not that of the file's name */
};

/* Which requests are read, and their defaults. Nothing is owned. */
struct exec_request_rules {
  const char *pack;            /* of this sidecar; NULL or "": it takes all requests */
  const char *directory;       /* NULL: EXEC_REQUEST_DIRECTORY */
  const char *shell;           /* "bash" or "sh"; NULL: there is none */
  struct env_files *env_files; /* whose variables a step gets; NULL: none */
  unsigned timeout_seconds;
  unsigned timeout_max_seconds; /* a longer timeout is reduced to this */
};

/* Parses a request; the id is that of the file's name. Sets the error unless it is REQUEST_READY or
   REQUEST_OF_OTHERS; its code is the exit code of the answer, or 0 for EXECUTION_EXIT_NOT_RUN. The
   caller calls step_release for the step, whatever the result is. */
enum request_found exec_request_parse(struct exec_request *self, const char *text, size_t length,
                                      const char *id, const struct exec_request_rules *rules,
                                      struct error *error);

/* Appends the command with its arguments: the line for a shell. */
void exec_request_add_text(const struct exec_request *self, struct buffer *out);

/* Returns true for 1 to EXEC_REQUEST_ID_MAX bytes of UTF-8 without control characters. */
bool exec_request_id_is_valid(const char *id);

/* Appends the result. The streams lose their trailing line endings; bytes that are not UTF-8 become
   U+FFFD. `message`, unless it is "", is the last line of stderr, which is never cut. `stream_max`
   is at most EXEC_RESULT_STREAM_MAX bytes. */
void exec_request_add_result(const char *id, const struct execution_result *end,
                             const char *message, size_t stream_max, struct buffer *out);
