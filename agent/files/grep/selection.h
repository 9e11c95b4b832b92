#ifndef AGENT_FILES_GREP_SELECTION_H
#define AGENT_FILES_GREP_SELECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/files/glob/glob.h"
#include "agent/files/grep/search.h"
#include "agent/files/ignore/ignore.h"
#include "agent/files/tree/walk.h"
#include "base/buffer.h"
#include "base/error.h"

/*
 * Which entries below the root of a search are looked at (agent/files/grep/search.h).
 *
 *   if (selection_init(&selection, search, &error) == 0)
 *     selection_enter(&selection, fd);
 *     while (walk_next(walk, &entry))
 *       … selection_takes(&selection, &entry)
 *   selection_release(&selection);
 */
struct selection {
  const struct search *search;
  struct glob *glob; /* NULL: none */
  bool is_negated;
  char *reference;    /* from the root; NULL: it is not below */
  struct buffer path; /* lexical, of the root with a "/", then of the entry; empty without a use */
  size_t root;        /* bytes of the former */
  struct ignore *ignore; /* NULL: ignore files and hidden names make no difference */
  size_t hidden_files;   /* that they have left out */
  size_t hidden_directories;
};

/* -1 for a glob that does not compile. Either way the caller ends with selection_release. */
int selection_init(struct selection *self, const struct search *search, struct error *error);

/* The root is this directory. */
void selection_enter(struct selection *self, int root);

/* Of each entry of the walk, in its order. A directory that is not taken is to be skipped. */
bool selection_takes(struct selection *self, const struct walk_entry *entry);

void selection_release(struct selection *self);

#endif
