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
 * A kind of step that is run: its fields, and what is done for it. Each is one file here and one
 * row in kinds.h; nothing else knows it.
 *
 * What a kind does is done in a process of the step's own, so that deadline, cancel and a crash are
 * the same for all. `run` executes a command. Every other kind has a function `work` that runs in a
 * forked child (kind_fork): whatever it meets, a file system that hangs or a pattern that never
 * ends, the agent goes on, and ends it like a command. What it writes to standard output is the
 * step's outputContent, each line on standard error is an event, and the code that it exits with is
 * the step's.
 */

/* What `work` produces; all zeros before. */
struct output {
  struct buffer content; /* outputContent */
  struct error warning;  /* a line for standard error, such as that the content was cut; "": none */
};

struct kind {
  struct step_kind wire;
  /* One line for the log; NULL: the kind's name and the subject. */
  void (*describe)(const struct step *step, char *out, size_t size);
  /* See process_start; `tag` is the step's. */
  struct process *(*start)(const struct run_context *context, const struct step *step,
                           const char *tag, const struct process_handler *handler, void *owner,
                           struct error *error);
  /* In the child, in the step's directory where the path is relative. 0, or -1 with the reason,
     which is all that is answered then. */
  int (*work)(const struct step *step, struct output *output, struct error *error);
  bool has_content; /* of `work`: outputContent is there also when it is empty */
};

/* Appends to the warning, after "; " when it is not empty. */
void kind_warn(struct output *output, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Warns of directories that could not be read, if there are any. */
void kind_warn_unread(struct output *output, size_t directories);

/* The kind of a step that has a subject. */
const struct kind *kind_of(const struct step *step);

/* The `line` of its `started` event, to be freed: a command alone, or the kind and the path, with
   spaces for line endings. Longer than PATH_MAX nothing of that can be of use. */
#define KIND_TITLE_MAX 4096
char *kind_title(const struct step *step);

/* What the log says of it; cut at the buffer's end. */
void kind_describe(const struct step *step, char *out, size_t size);

/* `start` of the kinds that have `work`. Never waits for a file system. */
struct process *kind_fork(const struct run_context *context, const struct step *step,
                          const char *tag, const struct process_handler *handler, void *owner,
                          struct error *error);

/* Where a step that names no directory is at home, if it is there; else where the agent is. */
#define KIND_DIRECTORY "/work"

#endif
