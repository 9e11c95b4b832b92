#ifndef AGENT_KINDS_KIND_H
#define AGENT_KINDS_KIND_H

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/process/process.h"
#include "base/buffer.h"
#include "base/error.h"
#include "wire/step.h"

/*
 * A kind of step that runs: its fields on the wire, and what the agent does for it. Each is one
 * file in this directory and one row in kinds.h; nothing else knows it.
 *
 * Every step runs in a process of its own, so that deadline, cancel and a crash are the same for
 * all kinds. `run` executes a command. Every other kind has a function `work` that runs in a forked
 * child: where a file system hangs or a pattern never ends, the agent goes on, and ends the child
 * like a command. What the child writes to standard output is the step's outputContent, each line
 * on standard error is an event, and its exit code is the step's.
 */

/* What `work` produces; all zeros before. */
struct output {
  struct buffer content;  /* outputContent */
  struct buffer warnings; /* lines for standard error, such as that the content was cut */
};

/* What the steps of one engine share. Nothing is owned. */
struct kind_context {
  char *const *environment; /* what commands inherit */
};

struct kind {
  struct step_kind wire;
  /* Writes one line for the log; NULL: the kind's name and the target. */
  void (*describe)(const struct step *step, char *out, size_t size);
  /* Of a command: fills in argv, envp, memory and the directory. NULL where there is `work`.
     `tag` is the step's. */
  void (*prepare_spec)(const struct kind_context *context, const struct step *step, const char *tag,
                       struct process_spec *spec);
  /* Of a command: frees what only the making of its process needs. */
  void (*release_input)(struct step *step);
  /* Called in the child, in the step's directory where a path of it is relative. Returns 0, or -1
     with the reason, which is then the whole answer. */
  int (*work)(const struct step *step, struct output *output, struct error *error);
  bool has_content; /* of `work`: outputContent is a string even when it is empty */
  bool read_only;   /* it changes nothing: to execute it twice is to execute it once */
  /* Where in its fields another path is, a text, that begins at the same directory as the target;
     0: it has none. */
  size_t other_path;
};

/* A step points to `wire`; kind_of goes from there to the whole. */
static_assert(offsetof(struct kind, wire) == 0, "the first member");

/* Adds a line to the warnings, of at most 255 bytes, whatever the names in it; a longer one is cut in
   its middle. */
void kind_warn(struct output *output, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For `work`: the directory at which a relative target begins, by its text, absolute; to be freed. NULL
   where the agent's own directory is needed for it, and was removed. */
char *kind_repository(const struct step *step);

/* Adds a warning of how many directories could not be read, if any. */
void kind_warn_unread(struct output *output, size_t directories);

/* The kind of a step that has a target (see step_is_work). */
const struct kind *kind_of(const struct step *step);

/* The `line` of its `started` event, to be freed: of a command the command alone, else kind and
   path; with spaces for line endings. The target is cut after PATH_MAX: a longer one cannot work.
 */
#define KIND_TITLE_MAX PATH_MAX
char *kind_title(const struct step *step);

/* Writes one line for the log, cut at the buffer's end. */
void kind_describe(const struct step *step, char *out, size_t size);

/* What process_prepare and process_start need to run this step. `tag` is the step's; both must
   outlive the process. The spec's memory is the process's. */
struct process_spec kind_process_spec(const struct kind_context *context, const struct step *step,
                                      const char *tag);

/* Frees the step's text for standard input: its process is made, and has it. */
void kind_release_input(struct step *step);

/* Executes the step's `work` and writes to standard output and standard error what comes of it.
   `step` is a struct step. For a child of the agent: returns its exit code. */
int kind_work(const void *step);

/* The directory of a step that names none, if it exists; else the agent's own. */
#define KIND_DIRECTORY "/work"

#endif
