#include "agent/files/tree/tree_render.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/files/access/directory.h"
#include "agent/files/access/path.h"
#include "agent/files/glob/glob.h"
#include "agent/files/tree/heap.h"
#include "agent/files/tree/walk.h"
#include "base/memory.h"
#include "base/printable.h"

/* First entries are chosen, level by level: a level is read when the one above it is complete, and
   of its entries a heap keeps the first, as many as there is room for. Then they are drawn. A
   directory is opened from the root by mere names, so that no link is followed; there are never
   more of them than entries. */
struct tree_entry {
  const struct tree_entry *parent; /* NULL: it is in the root */
  const char *name;
  size_t order; /* among all that are chosen: by level, then by parent */
  size_t first; /* of what is in it, and how many are chosen */
  size_t count;
  unsigned depth;    /* 1: in the root */
  bool is_directory; /* or a link to one */
  bool is_entered;   /* a directory */
};

struct tree_choice {
  int root;
  struct globs *excludes;
  char *reference; /* from the root; NULL: it is not below */
  struct tree_render *result;
  struct heap level; /* of the one that is being read */
  struct tree_entry *chosen[TREE_RENDER_MAX];
  size_t count;
};

static int compare(const void *one, const void *other) {
  const struct tree_entry *a = one;
  const struct tree_entry *b = other;
  if (a->parent != b->parent)
    return a->parent->order < b->parent->order ? -1 : 1;
  if (a->is_directory != b->is_directory)
    return a->is_directory ? -1 : 1;
  return strcmp(a->name, b->name);
}

/* --- choosing --- */

/* Whether the entry is what is left of the path, whose components are compared from the last one. */
static bool is_at(const struct tree_entry *entry, const char *path) {
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

static bool is_excluded(const struct tree_choice *self, const struct tree_entry *entry) {
  if (entry->is_directory && walk_is_excluded(walk_default_excludes, entry->name))
    return true;
  if (self->reference != NULL && is_at(entry, self->reference))
    return true;
  return globs_judge(self->excludes, entry->name, strlen(entry->name), entry->is_directory) ==
         GLOBS_MATCH;
}

/* A copy with the name in the same allocation. */
static struct tree_entry *copy_entry(const struct tree_entry *entry) {
  size_t length = strlen(entry->name);
  struct tree_entry *copy = memory_allocate(sizeof *copy + length + 1);
  char *name = (char *)(copy + 1);
  memcpy(name, entry->name, length + 1);
  *copy = *entry;
  copy->name = name;
  return copy;
}

static bool is_full(const struct tree_choice *self) {
  return self->count + self->level.count == TREE_RENDER_MAX;
}

static void add_candidate(struct tree_choice *self, const struct tree_entry *entry) {
  struct heap *level = &self->level;
  if (!is_full(self)) {
    heap_add(level, copy_entry(entry));
    return;
  }
  self->result->is_cut = true;
  if (level->count > 0 && compare(entry, level->items[0]) < 0) {
    heap_add(level, copy_entry(entry));
    free(heap_take_last(level));
  }
}

/* Where all places are taken, it only matters whether there is one more. */
static void read_entries(struct tree_choice *self, const struct tree_entry *parent,
                         DIR *directory) {
  struct directory_entry found;
  errno = 0;
  while ((self->count < TREE_RENDER_MAX || !self->result->is_cut) &&
         directory_next(directory, &found)) {
    struct tree_entry entry = {.parent = parent,
                               .name = found.name,
                               .depth = parent != NULL ? parent->depth + 1 : 1,
                               .is_directory = directory_is_one(dirfd(directory), &found),
                               .is_entered = found.type == DT_DIR};
    if (!is_excluded(self, &entry))
      add_candidate(self, &entry);
    errno = 0;
  }
  self->result->unread += errno != 0 && errno != ENOENT; /* read in part */
  closedir(directory);
}

/* NULL with errno. */
static DIR *open_entry(const struct tree_choice *self, const struct tree_entry *entry) {
  const char *names[WALK_DEPTH_MAX];
  unsigned count = 0;
  for (; entry != NULL; entry = entry->parent)
    names[count++] = entry->name;
  DIR *directory = directory_open_below(self->root, ".");
  while (directory != NULL && count > 0) {
    DIR *below = directory_open_below(dirfd(directory), names[--count]);
    int reason = errno;
    closedir(directory);
    errno = reason;
    directory = below;
  }
  return directory;
}

static void enter(struct tree_choice *self, const struct tree_entry *entry) {
  if (entry->depth == WALK_DEPTH_MAX) {
    self->result->unread++;
    return;
  }
  DIR *directory = open_entry(self, entry);
  if (directory != NULL)
    read_entries(self, entry, directory);
  else if (errno != ELOOP && errno != ENOTDIR && errno != ENOENT)
    self->result->unread++; /* otherwise it has vanished, or is something else by now */
}

static void choose_level(struct tree_choice *self) {
  heap_sort(&self->level);
  for (size_t i = 0; i < self->level.count; i++) {
    struct tree_entry *entry = self->level.items[i];
    entry->order = self->count;
    struct tree_entry *parent = entry->parent != NULL ? self->chosen[entry->parent->order] : NULL;
    if (parent != NULL && parent->count++ == 0)
      parent->first = self->count;
    self->chosen[self->count++] = entry;
  }
  self->level.count = 0;
}

/* Whether what comes next is needed: it is not when all of the level before it fills the rest. */
static bool is_needed(const struct tree_choice *self, const struct tree_entry *directory) {
  if (!self->result->is_cut || !is_full(self))
    return true;
  return self->level.count > 0 &&
         ((const struct tree_entry *)self->level.items[0])->parent->order >= directory->order;
}

static void choose(struct tree_choice *self, DIR *root, unsigned max_depth) {
  read_entries(self, NULL, root);
  choose_level(self);
  size_t begin = 0; /* of the level above */
  for (unsigned depth = 1; depth < max_depth && begin < self->count && !self->result->is_cut;
       depth++) {
    size_t end = self->count;
    for (; begin < end; begin++)
      if (self->chosen[begin]->is_entered && is_needed(self, self->chosen[begin]))
        enter(self, self->chosen[begin]);
    choose_level(self);
  }
}

/* --- drawing --- */

/* What is left to draw of a directory. */
struct tree_rest {
  size_t next, end;
  size_t indent; /* bytes of the indentation */
};

static void draw_entry(const struct tree_entry *entry, const struct buffer *indentation,
                       bool is_last, struct buffer *content) {
  buffer_add(content, indentation->bytes, indentation->length);
  buffer_add_string(content, is_last ? "└── " : "├── ");
  printable_add(content, entry->name, strlen(entry->name));
  buffer_add_string(content, entry->is_directory ? "/\n" : "\n");
}

static void draw(const struct tree_choice *self, struct buffer *content) {
  struct tree_rest levels[WALK_DEPTH_MAX + 1];
  struct buffer indentation = {0};
  size_t top = 0; /* entries of the root */
  while (top < self->count && self->chosen[top]->depth == 1)
    top++;
  unsigned depth = 0;
  levels[depth] = (struct tree_rest){.end = top};
  for (;;) {
    struct tree_rest *level = &levels[depth];
    if (level->next == level->end) {
      if (depth-- == 0)
        break;
      continue;
    }
    const struct tree_entry *entry = self->chosen[level->next++];
    bool is_last = level->next == level->end;
    indentation.length = level->indent;
    draw_entry(entry, &indentation, is_last, content);
    if (entry->count == 0)
      continue;
    buffer_add_string(&indentation, is_last ? "    " : "│   ");
    levels[++depth] = (struct tree_rest){
        .next = entry->first, .end = entry->first + entry->count, .indent = indentation.length};
  }
  buffer_release(&indentation);
}

/* --- the root --- */

static int take_globs(struct globs *self, const char *const *globs, struct error *error) {
  for (size_t i = 0; globs != NULL && globs[i] != NULL; i++) {
    if (i == TREE_RENDER_GLOBS_MAX)
      return error_set(error, "more than %zu globs", TREE_RENDER_GLOBS_MAX);
    struct error reason;
    if (globs_add(self, globs[i], &reason) != 0)
      return error_set(error, "%s: %s", reason.text, globs[i]);
  }
  return 0;
}

/* The last component: "." where the path ends in it, slashes aside. */
static const char *root_name(const char *path, const char *full_path) {
  size_t length = strlen(path);
  while (length > 0 && path[length - 1] == '/')
    length--;
  bool is_dot = length > 0 && path[length - 1] == '.' && (length == 1 || path[length - 2] == '/');
  return is_dot ? "." : path_name(full_path);
}

static int draw_root(struct tree_choice *self, const char *path, unsigned max_depth,
                     struct buffer *content, struct error *error) {
  self->root = directory_open(path, error);
  if (self->root < 0)
    return -1;
  int result = -1;
  char *full_path = path_full(path, error);
  DIR *directory = full_path != NULL ? directory_open_below(self->root, ".") : NULL;
  if (directory != NULL) {
    choose(self, directory, max_depth);
    self->result->entries = self->count;
    const char *name = root_name(path, full_path);
    printable_add(content, name, strlen(name));
    buffer_add_string(content, "/\n");
    draw(self, content);
    if (self->result->is_cut)
      buffer_add_string(content, TREE_RENDER_CUT);
    else
      content->length--; /* the last line has no end */
    result = 0;
  } else if (full_path != NULL) {
    (void)directory_fail(error, path, errno);
  }
  free(full_path);
  close(self->root);
  return result;
}

int tree_render_write(struct tree_render *self, const char *path, unsigned max_depth,
                      const char *const *exclude_globs, const char *repository,
                      struct buffer *content, struct error *error) {
  *self = (struct tree_render){0};
  struct tree_choice *choice = memory_allocate(sizeof *choice);
  *choice = (struct tree_choice){.result = self,
                                 .level = {.compare = compare},
                                 .excludes = globs_new(),
                                 .reference = walk_reference(repository, path)};
  int result = take_globs(choice->excludes, exclude_globs, error);
  if (result == 0)
    result = draw_root(choice, path, max_depth, content, error);
  for (size_t i = 0; i < choice->count; i++)
    free(choice->chosen[i]);
  globs_free(choice->excludes);
  heap_release(&choice->level);
  free(choice->reference);
  free(choice);
  return result;
}
