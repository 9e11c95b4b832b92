#pragma once

#include "agent/files/grep/search.h"
#include "agent/files/tree/walk.h"

/*
 * Decides which entries below its root a search looks at, by three rules of PROTOCOL.md, grep: the
 * directories that are always excluded, the glob, and with `respects_ignores` the ignore files.
 *
 * The hard part is a glob that names a directory which another rule leaves out, such as ".github/"
 * followed by "**". The directory is then entered, and that rule does not apply below it. The third
 * rule does, so that a search that respects fewer rules never finds less.
 */
enum search_scope_verdict {
  SEARCH_SCOPE_TAKEN,
  SEARCH_SCOPE_NOT_CHOSEN, /* the glob matches neither the entry nor anything below it */
  SEARCH_SCOPE_EXCLUDED,   /* a directory that is always excluded, below which the glob may match */
  SEARCH_SCOPE_HIDDEN      /* an ignored or hidden entry */
};

struct search_scope;

/* Returns NULL with an error for a glob that globs_add rejects. The search must stay until
   search_scope_free. */
struct search_scope *search_scope_new(const struct search *search, struct error *error);

/* Call it before the walk if the root is a directory; its descriptor is used only here. */
void search_scope_enter(struct search_scope *self, int root);

/* Call it for each entry of the walk, in order. The caller skips a directory that is not taken. */
enum search_scope_verdict search_scope_classify(struct search_scope *self,
                                                const struct walk_entry *entry);

/* Like ignore_unused. */
size_t search_scope_unused_ignores(const struct search_scope *self, struct error *first);

/* Accepts NULL. */
void search_scope_free(struct search_scope *self);
