#include "agent/files/grep/search_scope.h"

#include <stdlib.h>
#include <string.h>

#include "agent/files/access/path.h"
#include "agent/files/glob/glob.h"
#include "agent/files/ignore/ignore.h"
#include "base/memory.h"

#define NOWHERE (-1)

struct search_scope {
  const struct search *search;
  struct globs *glob;    /* NULL for all */
  char *reference;       /* relative to the root; NULL if it is not below */
  struct buffer lexical; /* path of the root with a "/", then of the entry; empty if not needed */
  size_t root;           /* bytes of the root's path */
  struct ignore *ignore; /* NULL if ignore files and hidden names make no difference */
  /* The depth of the directory around the entry that the glob names, below which a rule does not
     apply; or NOWHERE. */
  int past_excludes, past_ignores;
};

struct search_scope *search_scope_new(const struct search *search, struct error *error) {
  struct search_scope *self = memory_allocate(sizeof *self);
  *self =
      (struct search_scope){.search = search, .past_excludes = NOWHERE, .past_ignores = NOWHERE};
  const char *glob = search->glob;
  self->glob = glob != NULL ? globs_new() : NULL;
  if (glob == NULL || globs_add(self->glob, glob + (glob[0] == '!'), error) == 0)
    return self;
  search_scope_free(self);
  return NULL;
}

void search_scope_free(struct search_scope *self) {
  if (self == NULL)
    return;
  ignore_free(self->ignore);
  buffer_release(&self->lexical);
  free(self->reference);
  globs_free(self->glob);
  free(self);
}

void search_scope_enter(struct search_scope *self, int root) {
  const struct search *search = self->search;
  self->reference = walk_reference(search->repository, search->path);
  if (search->respects_ignores)
    self->ignore = ignore_new(root, search->path, search->home, search->config);
  if (self->glob == NULL || search->repository == NULL)
    return;
  char *path = path_lexical(search->repository, search->path);
  buffer_add_string(&self->lexical, path);
  if (self->lexical.bytes[self->lexical.length - 1] != '/')
    buffer_add(&self->lexical, "/", 1);
  self->root = self->lexical.length;
  free(path);
}

size_t search_scope_unused_ignores(const struct search_scope *self, struct error *first) {
  return self->ignore != NULL ? ignore_unused(self->ignore, first) : 0;
}

/* Returns the entry's path from the repository; if it is elsewhere, its whole path with the leading
   "/", which only "**" and "*" match; or NULL if the repository is not known. */
static const char *below_repository(struct search_scope *self, const struct walk_entry *entry) {
  if (self->root == 0)
    return NULL;
  self->lexical.length = self->root;
  buffer_add(&self->lexical, entry->path, entry->length + 1); /* with the NUL */
  const char *path = self->lexical.bytes;
  const char *below = path_below(path, self->search->repository);
  return below != NULL ? below : path;
}

static bool is_match(const struct search_scope *self, const char *path, bool is_directory) {
  return path != NULL &&
         globs_classify(self->glob, path, strlen(path), is_directory) == GLOBS_MATCH;
}

/* The verdict of the glob. */
enum choice { SILENT, CHOSEN, LEFT_OUT };

static enum choice choose(struct search_scope *self, const struct walk_entry *entry) {
  bool is_directory = entry->type == DT_DIR;
  if (self->glob == NULL)
    return SILENT;
  if (self->search->glob[0] == '!')
    return is_match(self, below_repository(self, entry), is_directory) ? LEFT_OUT : SILENT;
  if (is_match(self, entry->path, is_directory) ||
      is_match(self, below_repository(self, entry), is_directory))
    return CHOSEN;
  return is_directory ? SILENT : LEFT_OUT;
}

/* Returns what the glob can choose below a directory. */
static enum globs_reach reach(struct search_scope *self, const struct walk_entry *entry) {
  if (self->glob == NULL || self->search->glob[0] == '!')
    return GLOBS_BELOW;
  enum globs_reach from_root = globs_reach(self->glob, entry->path, entry->length);
  const char *path = below_repository(self, entry);
  if (path == NULL)
    return from_root;
  enum globs_reach from_repository = globs_reach(self->glob, path, strlen(path));
  return from_repository > from_root ? from_repository : from_root;
}

static bool is_excluded(const struct search_scope *self, const struct walk_entry *entry) {
  return walk_is_excluded(entry->name) ||
         (self->reference != NULL && strcmp(self->reference, entry->path) == 0);
}

static void leave(int *past, const struct walk_entry *entry) {
  if (entry->depth <= *past)
    *past = NOWHERE;
}

static enum search_scope_verdict
classify_directory(struct search_scope *self, const struct walk_entry *entry, enum choice choice) {
  bool excludes = self->past_excludes == NOWHERE && is_excluded(self, entry);
  /* ignore_hides is called even if the glob chooses the directory, since its entries may follow. */
  bool hides = self->ignore != NULL && self->past_ignores == NOWHERE &&
               ignore_hides(self->ignore, entry) && choice != CHOSEN;
  bool is_past = self->past_excludes != NOWHERE || self->past_ignores != NOWHERE;
  if (!excludes && !hides && !is_past)
    return SEARCH_SCOPE_TAKEN;
  enum globs_reach below = reach(self, entry);
  if (excludes && below != GLOBS_NAMED)
    return below == GLOBS_BELOW ? SEARCH_SCOPE_EXCLUDED : SEARCH_SCOPE_NOT_CHOSEN;
  if (hides && below != GLOBS_NAMED)
    return SEARCH_SCOPE_HIDDEN;
  if (below == GLOBS_NOT_BELOW)
    return SEARCH_SCOPE_NOT_CHOSEN;
  self->past_excludes = excludes ? entry->depth : self->past_excludes;
  self->past_ignores = hides ? entry->depth : self->past_ignores;
  return SEARCH_SCOPE_TAKEN;
}

enum search_scope_verdict search_scope_classify(struct search_scope *self,
                                                const struct walk_entry *entry) {
  leave(&self->past_excludes, entry);
  leave(&self->past_ignores, entry);
  enum choice choice = choose(self, entry);
  if (choice == LEFT_OUT)
    return SEARCH_SCOPE_NOT_CHOSEN;
  if (entry->type == DT_DIR)
    return classify_directory(self, entry, choice);
  bool hides = choice != CHOSEN && self->ignore != NULL && ignore_hides(self->ignore, entry);
  return hides ? SEARCH_SCOPE_HIDDEN : SEARCH_SCOPE_TAKEN;
}
