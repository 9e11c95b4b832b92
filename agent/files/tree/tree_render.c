#include "agent/files/tree/tree_render.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/files/access/path.h"
#include "agent/files/glob/glob.h"
#include "agent/files/tree/walk.h"
#include "base/printable.h"

/* Entries are first chosen, level by level, and then drawn. */
struct tree_choice {
  struct levels levels;
  struct globs *excludes;
  char *reference; /* relative to the root; NULL if it is not below */
};

/* Compares the first components that differ: directories come first. */
static int compare(const struct level_entry *one, const struct level_entry *other) {
  const char *a = one->path, *b = other->path;
  size_t a_length, b_length;
  for (;; a += a_length + 1, b += b_length + 1) {
    a_length = strcspn(a, "/");
    b_length = strcspn(b, "/");
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    bool a_ends = a[a_length] == '\0', b_ends = b[b_length] == '\0';
    if (order == 0 && a_length == b_length) {
      if (a_ends || b_ends)
        return (int)b_ends - (int)a_ends;
      continue;
    }
    bool is_a_directory = !a_ends || one->is_directory;
    bool is_b_directory = !b_ends || other->is_directory;
    if (is_a_directory != is_b_directory)
      return is_a_directory ? -1 : 1;
    return order != 0 ? order : a_length < b_length ? -1 : 1;
  }
}

static bool is_excluded(const struct tree_choice *self, const struct walk_entry *found,
                        bool is_directory) {
  return (is_directory && walk_is_excluded(found->name)) ||
         (self->reference != NULL && strcmp(self->reference, found->path) == 0) ||
         globs_classify(self->excludes, found->name, strlen(found->name), is_directory) ==
             GLOBS_MATCH;
}

static void offer(struct levels *levels, const struct walk_entry *found) {
  struct stat file;
  const struct level_entry entry = {.path = found->path,
                                    .is_directory =
                                        found->type == DT_DIR ||
                                        (found->type == DT_LNK &&
                                         fstatat(found->parent, found->name, &file, 0) == 0 &&
                                         S_ISDIR(file.st_mode))};
  if (!is_excluded((const struct tree_choice *)levels, found, entry.is_directory) &&
      levels_accept(levels, &entry))
    levels_add(levels, &entry);
}

static size_t depth_of(const char *path) {
  size_t depth = 0;
  while ((path = strchr(path, '/')) != NULL) {
    depth++;
    path++;
  }
  return depth;
}

/* Whether no entry of the same directory follows. */
static bool is_last(const struct levels *chosen, size_t index, size_t depth) {
  size_t next = index + 1;
  while (next < chosen->count && depth_of(chosen->entries[next]->path) > depth)
    next++;
  return next == chosen->count || depth_of(chosen->entries[next]->path) < depth;
}

static void draw(const struct levels *chosen, struct buffer *content) {
  bool are_last[WALK_DEPTH_MAX] = {false}; /* the directories above, and the entry */
  for (size_t i = 0; i < chosen->count; i++) {
    const struct level_entry *entry = chosen->entries[i];
    const char *name = entry->path;
    size_t depth = 0;
    for (const char *slash; (slash = strchr(name, '/')) != NULL; depth++, name = slash + 1)
      buffer_add_string(content, are_last[depth] ? "    " : "│   ");
    are_last[depth] = is_last(chosen, i, depth);
    buffer_add_string(content, are_last[depth] ? "└── " : "├── ");
    printable_add(content, name, strlen(name));
    buffer_add_string(content, entry->is_directory ? "/\n" : "\n");
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
  levels_sort(chosen);
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
  struct tree_choice choice = {.levels = {.compare = compare, .offer = offer, .found = found},
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
