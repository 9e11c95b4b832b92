#ifndef AGENT_KINDS_KIND_H
#define AGENT_KINDS_KIND_H

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/process/process.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/mask.h"
#include "wire/step.h"

/*
 * A kind of step that runs: its fields on the wire, and what the agent does for it. Each is one
 * file in this directory and one row in KINDS below; nothing else knows it.
 *
 * Every step runs in a process of its own, so that deadline, cancel and a crash are the same for
 * all kinds. `run` executes a command. Every other kind has a function `work` that runs in a
 * supervisor: where a file system hangs or a pattern never ends, the agent goes on, and ends the
 * supervisor like a command. What it writes to standard output is the step's outputContent, each
 * line on standard error is an event, and its exit code is the step's. All signals are blocked in
 * it.
 */

/* What `work` produces; all zeros before but `for_model`. */
struct output {
  bool for_model;         /* see struct step */
  bool is_bounded;        /* for a model: `work` itself has seen to the length */
  struct buffer content;  /* outputContent */
  struct buffer warnings; /* lines, such as that the content was cut */
  size_t of_cut;          /* the bytes of the first line when it is that of kind_warn_cut */
};

/* What the steps of one engine share. Nothing is owned. */
struct kind_context {
  char *const *environment;             /* what commands inherit */
  const struct step_kind *const *known; /* those that work is packed with, as of step_parse */
};

struct kind {
  struct step_kind wire;
  /* Called in the child, in the step's directory where a path of it is relative. Returns 0, or -1
     with the reason, which is then the whole answer. NULL of `run` alone. */
  int (*work)(const struct step *step, struct output *output, struct error *error);
  bool has_content; /* of `work`: outputContent is a string even when it is empty */
  bool read_only;   /* it changes nothing */
  /* Where in its fields another path is, a text, that begins at the same directory as the target;
     0: it has none. */
  size_t other_path;
};

/* `wire`, of the table `fields`. */
#define KIND_WIRE(NAME, NUMBER, TARGET, STRUCT)                                                    \
  .wire = {                                                                                        \
      .name = (NAME), .number = (NUMBER), .target = (TARGET), .table = STEP_TABLE(fields, STRUCT)}

/* The kinds that run, a row each; a step that names no kind is of the first. ROW(name) stands for
   <name>_kind, in <name>.c. */
#define KINDS(ROW)                                                                                 \
  ROW(run)                                                                                         \
  ROW(read_file)                                                                                   \
  ROW(read_bytes)                                                                                  \
  ROW(write_file)                                                                                  \
  ROW(write_bytes)                                                                                 \
  ROW(edit_file)                                                                                   \
  ROW(list_files)                                                                                  \
  ROW(grep)                                                                                        \
  ROW(directory_tree)

#define KIND_DECLARE(name) extern const struct kind name##_kind;
KINDS(KIND_DECLARE)
#undef KIND_DECLARE

/* Every kind, for step_parse; ended by NULL. */
extern const struct step_kind *const kinds[];

/* The fields of a `run` beside the command, which is the target. The step executes the command with
   these arguments, unchanged, and with the step's `env` added over the agent's own environment. */
struct run_fields {
  char **args;             /* what follows the command, NULL-terminated */
  struct step_bytes input; /* what it reads from standard input; absent: nothing */
  size_t home_at;          /* see struct exec_command */
};

/* kind_describe of a run: its words, in single quotes where they need them; of `sh -c` and its like
   only the script. Ends with "..." when it was cut; `size` is at least 4. */
void run_kind_describe(const struct step *step, struct masker *masker, char *out, size_t size);

/* Its TRACEPARENT, where that has the form of W3C Trace Context; else NULL. */
const char *run_kind_trace(const struct step *step);

/* The trace of which a run is a part, as its TRACEPARENT, unless its own env has that: a
   traceparent of W3C's Trace Context. Nothing happens with any other value (or NULL), and to other
   kinds. */
void run_kind_set_trace(struct step *step, const char *traceparent);

/* Fills in the execution of a run, its input and the memory. */
void run_kind_prepare_spec(const struct kind_context *context, const struct step *step,
                           const char *tag, struct process_spec *spec);

/* A step points to `wire`; kind_of goes from there to the whole. */
static_assert(offsetof(struct kind, wire) == 0, "the first member");

/* Adds a line to the warnings, `subject` first, which a model knows; of at most 255 bytes, whatever
   the names in it; a longer one is cut in its middle. */
void kind_warn(struct output *output, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, before all others: that the kind's own limit has cut the content. */
void kind_warn_cut(struct output *output, const char *subject, size_t limit, const char *what);

/* The most bytes of a content for a model. A longer one is cut after its last whole line, and a
   line says so. The warnings follow, as lines of the content. */
#define KIND_MODEL_MAX ((size_t)102400)

/* For `work`: the directory at which a relative target begins, by its text, absolute; to be freed.
   NULL where the agent's own directory is needed for it, and was removed. */
char *kind_repository(const struct step *step);

/* Adds a warning of how many directories could not be read, if any. */
void kind_warn_unread(struct output *output, size_t directories);

/* The kind of a step that has a target (see step_is_work). */
const struct kind *kind_of(const struct step *step);

/* The `line` of its `started` event, to be freed: of a command the command alone, else kind and
   path; with spaces for line endings. The target is cut after PATH_MAX: a longer one cannot work.
   Here and below secrets are masked before anything is cut; a masker of NULL masks nothing. */
#define KIND_TITLE_MAX PATH_MAX
char *kind_title(const struct step *step, struct masker *masker);

/* Writes one line for the log, cut at the buffer's end. */
void kind_describe(const struct step *step, struct masker *masker, char *out, size_t size);

/* What process_new needs to run this step; `tag` is the step's. It points into the step and into
   its memory, which the caller frees afterwards. */
struct process_spec kind_process_spec(const struct kind_context *context, const struct step *step,
                                      const char *tag);

/* Frees the step's text for standard input, once its process is made and has it. */
void kind_release_input(struct step *step);

/* Executes the step's `work`; the content is as a model is to have it where the step says so.
   Returns 0, or -1 with the reason. */
int kind_do(struct step *step, struct output *output, struct error *error);

/* A supervisor's work (agent/process/supervisor.h): kind_do for a step that was packed with the
   `known` kinds, and with `kinds`; writes to standard output and standard error what comes of it.
   May change the current directory. Returns the exit code. */
int kind_work_packed(const struct step_kind *const *known, char *packed, size_t length);
int kinds_work(char *packed, size_t length);

/* The directory of a step that names none, if it exists; else the agent's own. */
#define KIND_DIRECTORY "/work"

#endif
