#ifndef AGENT_FILES_GREP_SEARCH_SCOPE_H
#define AGENT_FILES_GREP_SEARCH_SCOPE_H

#include "agent/files/grep/search.h"
#include "agent/files/tree/walk.h"

/*
 * Decides which entries below its root a search looks at. Three rules leave entries out: the
 * directories that are always left out, the glob, and with `respects_ignores` the rules of the
 * repository (agent/files/grep/search.h has them in full).
 *
 *   struct search_scope *scope = search_scope_new(&search, &error);
 *   search_scope_enter(scope, walk_root(walk));
 *   while (walk_next(walk, &entry))
 *     if (search_scope_judge(scope, &entry) != SEARCH_SCOPE_TAKEN)
 *       walk_skip(walk);
 *   search_scope_free(scope);
 *
 * The hard part is a glob that names a directory which a rule leaves out, such as ".github/"
 * followed by "**". The directory is then entered, and the same rule does not apply below it. The
 * other rule does, so that a search that respects fewer rules never finds less.
 */
enum search_scope_verdict {
  SEARCH_SCOPE_TAKEN,
  SEARCH_SCOPE_NOT_CHOSEN, /* the glob matches neither the entry nor anything below it */
  SEARCH_SCOPE_EXCLUDED,   /* a directory that is always left out; the glob may match below it */
  SEARCH_SCOPE_HIDDEN      /* an entry that the repository ignores, or a hidden one */
};

struct search_scope;

/* NULL, with an error, for a glob that globs_add rejects. The search is read until
   search_scope_free. */
struct search_scope *search_scope_new(const struct search *search, struct error *error);

/* The root is a directory, by its descriptor, which is used only here. */
void search_scope_enter(struct search_scope *self, int root);

/* Called for each entry of the walk, in order. A directory that is not taken is to be skipped. */
enum search_scope_verdict search_scope_judge(struct search_scope *self,
                                             const struct walk_entry *entry);

/* As ignore_unused. */
size_t search_scope_unused_ignores(const struct search_scope *self, struct error *first);

/* May be NULL. */
void search_scope_free(struct search_scope *self);

#endif
