#ifndef AGENT_KINDS_KINDS_H
#define AGENT_KINDS_KINDS_H

#include "agent/kinds/kind.h"
#include "wire/step.h"

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

/* kind_work_packed of these kinds: a keeper's work. */
int kinds_work(char *packed, size_t length);

#endif
