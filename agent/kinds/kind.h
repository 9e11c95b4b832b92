#pragma once

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/confinement/confinement.h"
#include "agent/process/process.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/mask.h"
#include "wire/step.h"

/*
 * A kind of step that runs: its fields on the wire, and what the agent does for it. Each kind is
 * one file in this directory and one row in KINDS; nothing else knows it.
 *
 * `run` executes a command. Every other kind has a function `work` that runs in a supervisor: if a
 * file system hangs or a pattern takes forever, the agent continues, and kills the supervisor like
 * a command. The standard output of `work` is the step's outputContent, each line on standard error
 * is an event, and its exit code is the step's. All signals are blocked meanwhile.
 */

/* The results of `work`. */
struct output {
  bool for_model;         /* see struct step */
  bool is_bounded;        /* `work` itself limits the length for a model */
  struct buffer content;  /* outputContent */
  struct buffer warnings; /* lines, for example that the content was truncated */
  size_t of_cut;          /* the length of the first line if it is from kind_warn_cut; else 0 */
};

/* What the steps of one engine share. */
struct kind_context {
  char *const *environment;              /* which commands inherit */
  const struct step_kind *const *known;  /* the kinds for step_pack */
  const struct confinement *confinement; /* how steps are confined */
};

struct kind {
  struct step_kind wire;
  /* Called in the child, in the step's directory if a path of the step is relative. Returns 0, or
     -1 with the reason, which is then the whole answer. NULL only for `run`. */
  int (*work)(const struct step *step, struct output *output, struct error *error);
  bool has_content; /* outputContent is a string even if it is empty */
  bool read_only;   /* it changes nothing */
  bool reads_first; /* it reads the target before it changes it */
  /* The offset, in its fields, of a second path that begins at the same directory as the target; 0
     if there is none. */
  size_t other_path;
};

/* The member `wire` of a kind whose table is `fields`. */
#define KIND_WIRE(NAME, NUMBER, TARGET, STRUCT)                                                    \
  .wire = {                                                                                        \
      .name = (NAME), .number = (NUMBER), .target = (TARGET), .table = STEP_TABLE(fields, STRUCT)}

/* The kinds that run; the first is the default. ROW(name) stands for <name>_kind, in <name>.c. */
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

/* The fields of a `run` beside the command, which is the target. */
struct run_fields {
  char **args;             /* the arguments behind the command, ended by NULL */
  struct step_bytes input; /* standard input; empty if it is absent */
  bool raw;                /* events carry bytes instead of lines */
  size_t home_at;          /* see struct exec_command */
};

/* Is kind_describe for a run: writes its words, quoted if necessary. Ends with "..." if it is
   truncated; `size` is at least 4. */
void run_kind_describe(const struct step *step, struct masker *masker, char *out, size_t size);

/* Get and set the TRACEPARENT of a step, if it has the form of W3C Trace Context. Only a run that
   has none gets one. NULL stands for none. */
const char *run_kind_trace(const struct step *step);
void run_kind_set_trace(struct step *step, const char *traceparent);

/* Returns true if the step is a run whose events carry bytes. */
bool run_kind_is_raw(const struct step *step);

/* Is kind_process_spec for a run. */
void run_kind_prepare_spec(const struct kind_context *context, const struct step *step,
                           const char *tag, struct process_spec *spec);

static_assert(offsetof(struct kind, wire) == 0, "kind_of gets the kind from a step's wire");

/* Adds a warning, with `subject` in front unless a model reads it, shortened like an error. */
void kind_warn(struct output *output, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds, before all other warnings, that the kind's own limit has truncated the content. */
void kind_warn_cut(struct output *output, const char *subject, size_t limit, const char *what);

/* The most bytes of content for a model. Longer content is truncated after its last whole line. The
   warnings follow as lines. */
#define KIND_MODEL_MAX ((size_t)102400)

/* For `work`: returns the absolute lexical path of the directory at which a relative target begins,
   to be freed. NULL if that is the agent's own directory and it was removed. */
char *kind_repository(const struct step *step);

/* Adds a warning if any directories could not be read. */
void kind_warn_unread(struct output *output, size_t directories);

/* Returns the kind of a step that has a target (see step_is_work). */
const struct kind *kind_of(const struct step *step);

/* Returns the `line` of the `started` event, to be freed: the command alone, or kind and path, with
   spaces for line endings. The target is truncated to PATH_MAX bytes, above which it cannot work.
   Secrets are masked before anything is truncated, here and in kind_describe. */
#define KIND_TITLE_MAX PATH_MAX
char *kind_title(const struct step *step, struct masker *masker);

/* Writes one line for the log, truncated to `size`. */
void kind_describe(const struct step *step, struct masker *masker, char *out, size_t size);

/* Returns what process_new needs to run this step as planned. The result points into the step. The
   caller releases its body. */
struct process_spec kind_process_spec(const struct kind_context *context, const struct step *step,
                                      const struct confinement_plan *plan, const char *tag);

/* Frees the step's standard input after its process has got it. */
void kind_release_input(struct step *step);

/* Executes the step's `work`, and prepares the content for a model if the step is for one. Returns
   0, or -1 with the reason. */
int kind_execute(struct step *step, struct output *output, struct error *error);

/* How the error of a file kind begins if the sandbox policy has denied it; its path follows. */
#define KIND_OUTSIDE_FENCE "outside the sandbox policy: "

/* Execute a packed step in a supervisor and write content and warnings to standard output and
   standard error. `known` are the kinds that it was packed with; kinds_work uses `kinds`. Return
   the exit code. */
int kind_work_packed(const struct step_kind *const *known, char *packed, size_t length);
int kinds_work(char *packed, size_t length);

/* The default working directory of steps; if it does not exist, the agent's own. */
#define KIND_DIRECTORY "/work"

/* Returns that of the two in which a step starts now, or NULL if it is unknown. The caller frees
   it. */
char *kind_default_directory(void);

/* Returns the absolute lexical path of the directory in which a command starts, to be freed; NULL
   as above. */
char *kind_command_directory(const struct step *step);
