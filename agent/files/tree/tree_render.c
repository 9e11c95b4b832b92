#include "agent/files/tree/tree_render.h"

#include <stdlib.h>
#include <string.h>

#include "agent/files/access/directory.h"
#include "agent/files/access/path.h"
#include "agent/files/glob/glob.h"
#include "agent/files/tree/walk.h"
#include "base/printable.h"

/* Entries are first chosen, level by level, and then drawn. */
struct tree_entry {
  struct level_entry entry; /* its text is the name */
  size_t first;             /* the order of the first chosen entry in it; 0 if there is none */
  bool is_directory;        /* or a link to one */
};

struct tree_choice {
  struct levels levels;
  struct globs *excludes;
  char *reference; /* relative to the root; NULL if it is not below */
};

static int compare(const void *one, const void *other) {
  const struct tree_entry *a = one;
  const struct tree_entry *b = other;
  if (a->entry.parent != b->entry.parent)
    return a->entry.parent->order < b->entry.parent->order ? -1 : 1;
  if (a->is_directory != b->is_directory)
    return a->is_directory ? -1 : 1;
  return strcmp(a->entry.name, b->entry.name);
}

static bool is_before(const struct level_entry *directory, const struct level_entry *item) {
  return directory->order < item->parent->order;
}

/* Whether the entry has this path, whose components are compared from the last one. */
static bool is_at(const struct level_entry *entry, const char *path) {
  size_t length = strlen(path);
  for (; entry != NULL; entry = entry->parent) {
    size_t name = strlen(entry->name);
    if (length < name || memcmp(path + length - name, entry->name, name) != 0)
      return false;
    length -= name;
    if (length == 0)
      return entry->parent == NULL;
    if (path[--length] != '/')
      return false;
  }
  return false;
}

static bool is_excluded(const struct tree_choice *self, const struct tree_entry *tree) {
  const struct level_entry *entry = &tree->entry;
  if (tree->is_directory && walk_is_excluded(entry->name))
    return true;
  if (self->reference != NULL && is_at(entry, self->reference))
    return true;
  return globs_classify(self->excludes, entry->name, strlen(entry->name), tree->is_directory) ==
         GLOBS_MATCH;
}

static void offer(struct levels *levels, const struct level_entry *entry, int parent,
                  const struct directory_entry *found) {
  const struct tree_entry tree = {.entry = *entry, .is_directory = directory_is_one(parent, found)};
  if (!is_excluded((const struct tree_choice *)levels, &tree) && levels_accepts(levels, &tree))
    levels_add(levels, &tree);
}

/* The chosen entries of one directory are neighbors. */
static bool is_last(const struct levels *chosen, const struct level_entry *entry) {
  size_t next = entry->order + 1;
  return next == chosen->count ||
         ((const struct level_entry *)chosen->items[next])->parent != entry->parent;
}

static void draw_entry(const struct levels *chosen, const struct tree_entry *tree,
                       struct buffer *content) {
  const struct level_entry *above[WALK_DEPTH_MAX];
  size_t count = 0;
  for (const struct level_entry *at = tree->entry.parent; at != NULL; at = at->parent)
    above[count++] = at;
  while (count-- > 0)
    buffer_add_string(content, is_last(chosen, above[count]) ? "    " : "│   ");
  buffer_add_string(content, is_last(chosen, &tree->entry) ? "└── " : "├── ");
  printable_add(content, tree->entry.name, strlen(tree->entry.name));
  buffer_add_string(content, tree->is_directory ? "/\n" : "\n");
}

static void draw(const struct levels *chosen, struct buffer *content) {
  for (size_t i = chosen->count; i-- > 0;) {
    const struct level_entry *entry = chosen->items[i];
    if (entry->parent != NULL)
      ((struct tree_entry *)entry->parent)->first = i;
  }
  const struct level_entry *at = chosen->count > 0 ? chosen->items[0] : NULL;
  while (at != NULL) {
    const struct tree_entry *tree = (const struct tree_entry *)at;
    draw_entry(chosen, tree, content);
    while (at != NULL && tree->first == 0 && is_last(chosen, at))
      at = at->parent;
    if (at != NULL)
      at = chosen->items[tree->first > 0 ? tree->first : at->order + 1];
  }
}

static int add_globs(struct globs *self, const char *const *globs, struct error *error) {
  for (size_t i = 0; globs != NULL && globs[i] != NULL; i++) {
    if (i == TREE_RENDER_GLOBS_MAX)
      return error_set(error, "more than %zu globs", TREE_RENDER_GLOBS_MAX);
    struct error reason;
    if (globs_add(self, globs[i], &reason) != 0)
      return error_set(error, "%s: %s", reason.text, globs[i]);
  }
  return 0;
}

/* Returns the last component, or "." if the path ends in it. */
static const char *root_name(const char *path, const char *full_path) {
  size_t length = strlen(path);
  while (length > 0 && path[length - 1] == '/')
    length--;
  bool is_dot = length > 0 && path[length - 1] == '.' && (length == 1 || path[length - 2] == '/');
  return is_dot ? "." : strrchr(full_path, '/') + 1;
}

static int draw_root(struct levels *chosen, const char *path, unsigned max_depth,
                     struct buffer *content, struct error *error) {
  if (levels_read(chosen, path, max_depth, error) != 0)
    return -1;
  char *full_path = path_full(path, error);
  if (full_path == NULL)
    return -1;
  const char *name = root_name(path, full_path);
  printable_add(content, name, strlen(name));
  buffer_add_string(content, "/\n");
  draw(chosen, content);
  if (chosen->found->is_cut)
    buffer_add_string(content, TREE_RENDER_CUT);
  else
    content->length--; /* the last line has no end */
  free(full_path);
  return 0;
}

int tree_render_write(const char *path, unsigned max_depth, const char *const *exclude_globs,
                      const char *repository, struct buffer *content, struct levels_found *found,
                      struct error *error) {
  *found = (struct levels_found){.entries = 0};
  struct tree_choice choice = {.levels = {.size = sizeof(struct tree_entry),
                                          .compare = compare,
                                          .is_before = is_before,
                                          .offer = offer,
                                          .found = found},
                               .excludes = globs_new(),
                               .reference = walk_reference(repository, path)};
  int result = add_globs(choice.excludes, exclude_globs, error);
  if (result == 0)
    result = draw_root(&choice.levels, path, max_depth, content, error);
  found->entries = choice.levels.count;
  levels_release(&choice.levels);
  globs_free(choice.excludes);
  free(choice.reference);
  return result;
}
