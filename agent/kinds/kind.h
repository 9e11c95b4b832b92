#ifndef AGENT_KINDS_KIND_H
#define AGENT_KINDS_KIND_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/engine/run.h"
#include "agent/process/process.h"
#include "base/buffer.h"
#include "base/error.h"
#include "wire/step.h"

/*
 * A kind of step that is run: its fields, and the work that it does. Each is one file here and one
 * row in kinds.h; nothing else depends on it.
 *
 * Each step runs in a process of its own, so that deadline, cancel and a crash are handled the same
 * for all kinds. `run` executes a command. Every other kind has a function `work` that runs in a
 * forked child (kind_fork): should a file system hang or a pattern never end, the agent goes on and
 * ends the child like a command. What the child writes to standard output is the step's
 * outputContent, each line on standard error is an event, and its exit code is the step's.
 */

/* What `work` produces; all zeros before. */
struct output {
  struct buffer content; /* outputContent */
  struct error warning;  /* a line for standard error, such as that the content was cut; "": none */
};

struct kind {
  struct step_kind wire;
  /* One line for the log; NULL: the kind's name and the target. */
  void (*describe)(const struct step *step, char *out, size_t size);
  /* See process_start; `tag` is the step's. */
  struct process *(*start)(const struct run_context *context, const struct step *step,
                           const char *tag, const struct process_handler *handler, void *owner,
                           struct error *error);
  /* Called in the child; for a relative path in the step's directory. 0, or -1 with an error, after
     which the output is dropped. */
  int (*work)(const struct step *step, struct output *output, struct error *error);
  bool has_content; /* with `work`: an empty outputContent is "" and not null */
};

/* Appends to the warning, after "; " when it is not empty. */
void kind_warn(struct output *output, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Warns of directories that could not be read, if there are any. */
void kind_warn_unread(struct output *output, size_t directories);

/* The kind of a step that has a target. */
const struct kind *kind_of(const struct step *step);

/* The `line` of its `started` event, which the caller frees: the command, or the kind and the path,
   with spaces for line endings. The target is cut at KIND_TITLE_MAX bytes, PATH_MAX of Linux. */
#define KIND_TITLE_MAX 4096
char *kind_title(const struct step *step);

/* The step's description for the log, cut to `size`. */
void kind_describe(const struct step *step, char *out, size_t size);

/* `start` of the kinds that have `work`. Never waits for a file system. */
struct process *kind_fork(const struct run_context *context, const struct step *step,
                          const char *tag, const struct process_handler *handler, void *owner,
                          struct error *error);

/* The directory of a step that names none, if it exists; else the agent's own. */
#define KIND_DIRECTORY "/work"

#endif
