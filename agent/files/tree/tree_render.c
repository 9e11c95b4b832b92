#include "agent/files/tree/tree_render.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/files/access/directory.h"
#include "agent/files/access/full_path.h"
#include "agent/files/glob/glob.h"
#include "agent/files/tree/heap.h"
#include "agent/files/tree/walk.h"
#include "base/memory.h"
#include "base/printable.h"

/*
 * A directory may have a million names, of which only the first are shown: lines that come after as
 * many bytes as the text has room for never are. So the last lines are dropped, both while a
 * directory is read and from the directories above it. A shown name is at least as long as the name
 * itself, so that no line is dropped that would fit.
 */

#define BRANCH_LENGTH (sizeof "├── " - 1)

struct tree_line {
  const char *name;
  size_t size; /* in the text: a lower bound, in bytes */
  bool is_directory;
};

/* A directory whose lines are being written. */
struct tree_level {
  DIR *directory;
  struct heap lines; /* sorted */
  size_t next;
  size_t size;   /* of the lines from `next` on */
  size_t indent; /* bytes of the indentation that they have */
};

struct tree_drawing {
  struct glob *globs[TREE_RENDER_GLOBS_MAX];
  size_t glob_count;
  unsigned max_depth;
  struct tree_render *result;
  struct buffer *content;
  struct buffer indentation;
  struct tree_level levels[WALK_DEPTH_MAX];
  unsigned depth; /* open levels */
};

static int compare(const void *one, const void *other) {
  const struct tree_line *a = one;
  const struct tree_line *b = other;
  if (a->is_directory != b->is_directory)
    return a->is_directory ? -1 : 1;
  return strcmp(a->name, b->name);
}

static size_t room(const struct tree_drawing *self) {
  return TREE_RENDER_MAX - self->content->length;
}

/* --- names --- */

static bool is_excluded(const struct tree_drawing *self, const struct tree_line *line) {
  if (line->is_directory && walk_is_excluded(walk_default_excludes, line->name))
    return true;
  size_t length = strlen(line->name);
  for (size_t i = 0; i < self->glob_count; i++)
    if (glob_matches(self->globs[i], line->name, length, line->is_directory))
      return true;
  return false;
}

/* --- levels --- */

/* A copy with the name in the same allocation. */
static struct tree_line *copy_line(const struct tree_line *line) {
  size_t length = strlen(line->name);
  struct tree_line *copy = memory_allocate(sizeof *copy + length + 1);
  char *name = (char *)(copy + 1);
  memcpy(name, line->name, length + 1);
  *copy = *line;
  copy->name = name;
  return copy;
}

static void keep_line(const struct tree_drawing *self, struct tree_level *level,
                      const struct tree_line *line) {
  struct heap *lines = &level->lines;
  size_t max = room(self);
  if (level->size > max && compare(line, lines->items[0]) >= 0)
    return;
  heap_add(lines, copy_line(line));
  level->size += line->size;
  while (level->size - ((struct tree_line *)lines->items[0])->size > max) {
    struct tree_line *last = heap_take_last(lines);
    level->size -= last->size;
    free(last);
  }
}

static void read_lines(struct tree_drawing *self, struct tree_level *level) {
  struct directory_entry entry;
  while (directory_next(level->directory, &entry)) {
    struct tree_line line = {.name = entry.name,
                             .is_directory = directory_is_one(dirfd(level->directory), &entry)};
    line.size = level->indent + BRANCH_LENGTH + strlen(line.name) + line.is_directory + 1;
    if (!is_excluded(self, &line))
      keep_line(self, level, &line);
  }
  self->result->unread += errno != 0 && errno != ENOENT; /* read in part */
  heap_sort(&level->lines);
}

/* Drops the last of all lines as long as those before them fill the text. */
static void drop_lines(struct tree_drawing *self) {
  size_t size = 0;
  for (unsigned i = 0; i < self->depth; i++)
    size += self->levels[i].size;
  for (unsigned i = 0; i < self->depth; i++) {
    struct tree_level *level = &self->levels[i];
    while (level->lines.count > level->next) {
      struct tree_line *last = level->lines.items[level->lines.count - 1];
      if (size - last->size <= room(self))
        return;
      size -= last->size;
      level->size -= last->size;
      level->lines.count--;
      free(last);
    }
  }
}

static void push(struct tree_drawing *self, DIR *directory) {
  struct tree_level *level = &self->levels[self->depth++];
  *level = (struct tree_level){
      .directory = directory, .lines = {.compare = compare}, .indent = self->indentation.length};
  read_lines(self, level);
  drop_lines(self);
}

static void pop(struct tree_drawing *self) {
  struct tree_level *level = &self->levels[--self->depth];
  closedir(level->directory);
  heap_release(&level->lines);
}

/* --- drawing --- */

/* Returns false when there is no room for it. */
static bool draw_line(struct tree_drawing *self, const struct tree_line *line, bool is_last) {
  struct buffer *content = self->content;
  size_t before = content->length;
  buffer_add(content, self->indentation.bytes, self->indentation.length);
  buffer_add_string(content, is_last ? "└── " : "├── ");
  printable_add(content, line->name);
  buffer_add_string(content, line->is_directory ? "/\n" : "\n");
  if (content->length > TREE_RENDER_MAX) {
    content->length = before;
    self->result->is_cut = true;
    return false;
  }
  self->result->entries++;
  return true;
}

static void draw(struct tree_drawing *self) {
  while (self->depth > 0) {
    struct tree_level *level = &self->levels[self->depth - 1];
    if (level->next == level->lines.count) {
      pop(self);
      continue;
    }
    const struct tree_line *line = level->lines.items[level->next++];
    bool is_last = level->next == level->lines.count;
    level->size -= line->size;
    self->indentation.length = level->indent;
    if (!draw_line(self, line, is_last))
      return;
    if (!line->is_directory || self->depth >= self->max_depth)
      continue;
    DIR *below = directory_open_below(dirfd(level->directory), line->name);
    if (below == NULL) {
      /* Otherwise it is a link, which is not opened, or has vanished. */
      self->result->unread += errno != ELOOP && errno != ENOTDIR && errno != ENOENT;
    } else if (self->depth == WALK_DEPTH_MAX) {
      closedir(below);
      self->result->unread++;
    } else {
      buffer_add_string(&self->indentation, is_last ? "    " : "│   ");
      push(self, below);
    }
  }
}

static int take_globs(struct tree_drawing *self, const char *const *globs, struct error *error) {
  for (size_t i = 0; globs != NULL && globs[i] != NULL; i++) {
    if (i == TREE_RENDER_GLOBS_MAX)
      return error_set(error, "more than %zu globs", TREE_RENDER_GLOBS_MAX);
    struct error reason;
    self->globs[i] = glob_new(globs[i], &reason);
    if (self->globs[i] == NULL)
      return error_set(error, "%s: %s", reason.text, globs[i]);
    self->glob_count++;
  }
  return 0;
}

/* The last component: "." where the path ends in it, slashes aside. */
static const char *root_name(const char *path, const char *full_path) {
  size_t length = strlen(path);
  while (length > 0 && path[length - 1] == '/')
    length--;
  bool is_dot = length > 0 && path[length - 1] == '.' && (length == 1 || path[length - 2] == '/');
  return is_dot ? "." : full_path_name(full_path);
}

static int draw_root(struct tree_drawing *self, const char *path, struct error *error) {
  int fd = directory_open(path, error);
  if (fd < 0)
    return -1;
  int result = -1;
  char *root = full_path_new(path, error);
  DIR *directory = root != NULL ? directory_open_below(fd, ".") : NULL;
  if (directory != NULL) {
    printable_add(self->content, root_name(path, root));
    buffer_add_string(self->content, "/\n");
    push(self, directory);
    draw(self);
    self->content->length--; /* the last line has no end */
    result = 0;
  } else if (root != NULL) {
    (void)directory_fail(error, path, errno);
  }
  free(root);
  close(fd);
  return result;
}

int tree_render_write(struct tree_render *self, const char *path, unsigned max_depth,
                      const char *const *exclude_globs, struct buffer *content,
                      struct error *error) {
  *self = (struct tree_render){0};
  struct tree_drawing *drawing = memory_allocate(sizeof *drawing);
  *drawing = (struct tree_drawing){.max_depth = max_depth, .result = self, .content = content};
  int result = take_globs(drawing, exclude_globs, error);
  if (result == 0)
    result = draw_root(drawing, path, error);
  while (drawing->depth > 0)
    pop(drawing);
  for (size_t i = 0; i < drawing->glob_count; i++)
    glob_free(drawing->globs[i]);
  buffer_release(&drawing->indentation);
  free(drawing);
  return result;
}
