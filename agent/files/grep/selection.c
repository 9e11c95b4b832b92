#include "agent/files/grep/selection.h"

#include <stdlib.h>
#include <string.h>

#include "agent/files/access/lexical_path.h"
#include "agent/files/tree/reference.h"

int selection_init(struct selection *self, const struct search *search, struct error *error) {
  *self = (struct selection){.search = search};
  if (search->glob == NULL)
    return 0;
  self->is_negated = search->glob[0] == '!';
  self->glob = glob_new(search->glob + self->is_negated, error);
  return self->glob != NULL ? 0 : -1;
}

void selection_enter(struct selection *self, int root) {
  const struct search *search = self->search;
  self->reference = reference_below(search->repository, search->path);
  if (search->respects_ignores)
    self->ignore = ignore_new(root, search->path, search->home, search->config);
  if (self->glob == NULL || search->repository == NULL)
    return;
  char *path = lexical_path_new(search->repository, search->path);
  buffer_add_string(&self->path, path);
  if (strcmp(path, "/") != 0)
    buffer_add(&self->path, "/", 1);
  self->root = self->path.length;
  free(path);
}

void selection_release(struct selection *self) {
  ignore_free(self->ignore);
  buffer_release(&self->path);
  free(self->reference);
  glob_free(self->glob);
}

static bool matches_below_repository(struct selection *self, const struct walk_entry *entry) {
  if (self->root == 0)
    return false;
  self->path.length = self->root;
  buffer_add(&self->path, entry->path, entry->length + 1); /* with the NUL */
  const char *path = self->path.bytes;
  /* Of what is elsewhere it is the path with its "/", which only "**" and "*" match. */
  const char *below = lexical_path_below(path, self->search->repository);
  path = below != NULL ? below : path;
  return glob_matches(self->glob, path, strlen(path), entry->kind == WALK_DIRECTORY);
}

/* What the glob says. */
enum verdict { SILENT, TAKEN, LEFT_OUT };

static enum verdict judge_by_glob(struct selection *self, const struct walk_entry *entry) {
  bool is_directory = entry->kind == WALK_DIRECTORY;
  if (self->glob == NULL)
    return SILENT;
  if (self->is_negated)
    return matches_below_repository(self, entry) ? LEFT_OUT : SILENT;
  if (glob_matches(self->glob, entry->path, entry->length, is_directory) ||
      matches_below_repository(self, entry))
    return TAKEN;
  return is_directory ? SILENT : LEFT_OUT;
}

static bool is_reference(const struct selection *self, const struct walk_entry *entry) {
  return self->reference != NULL && strcmp(self->reference, entry->path) == 0;
}

bool selection_takes(struct selection *self, const struct walk_entry *entry) {
  if (is_reference(self, entry))
    return false;
  bool is_directory = entry->kind == WALK_DIRECTORY;
  enum verdict verdict = judge_by_glob(self, entry);
  if (verdict == LEFT_OUT || self->ignore == NULL || (verdict == TAKEN && !is_directory))
    return verdict != LEFT_OUT;
  /* A directory is judged in any case: what is in it may be asked for. */
  bool hides = ignore_hides(self->ignore, entry);
  if (!hides || verdict == TAKEN)
    return true;
  self->hidden_directories += is_directory;
  self->hidden_files += entry->kind == WALK_FILE;
  return false;
}
