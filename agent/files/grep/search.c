#include "agent/files/grep/search.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/directory.h"
#include "agent/files/access/full_path.h"
#include "agent/files/access/regular_file.h"
#include "agent/files/grep/file_search.h"
#include "agent/files/grep/named_file.h"
#include "agent/files/grep/selection.h"
#include "agent/files/tree/walk.h"
#include "base/memory.h"
#include "base/utf16.h"

static const int open_flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;

/* One byte more than the limit, which tells a file that is too large. */
static const size_t read_max = SEARCH_FILE_MAX + 1;
static const size_t buffer_size = UTF16_DECODED_MAX(SEARCH_FILE_MAX) + MEMSCAN_SLACK;

/* Reads a file, and decodes UTF-16. Returns the length of the text; 0 too for what is not searched;
   -1 with errno where reading fails. A file whose size is known needs no second read to find its
   end. */
static ssize_t fill(int fd, char *buffer) {
  struct stat file;
  if (fstat(fd, &file) != 0)
    return -1;
  if (!S_ISREG(file.st_mode) || file.st_size > SEARCH_FILE_MAX)
    return 0;
  size_t filled = 0;
  ssize_t n = 1;
  while (n != 0 && filled < read_max && (filled == 0 || filled != (size_t)file.st_size)) {
    n = read(fd, buffer + filled, read_max - filled);
    if (n > 0)
      filled += (size_t)n;
    else if (n < 0 && errno != EINTR)
      return -1;
  }
  if (filled == read_max)
    return 0;
  bool is_big_endian;
  return (ssize_t)(utf16_is_marked(buffer, filled, &is_big_endian)
                       ? utf16_decode(buffer, filled, is_big_endian)
                       : filled);
}

/* What every path begins with. */
static void add_prefix(const struct search *search, struct buffer *path) {
  size_t length = strlen(search->path);
  if (!search->prefix_paths || strcmp(search->path, ".") == 0)
    return;
  buffer_add(path, search->path, length);
  if (search->path[length - 1] != '/')
    buffer_add(path, "/", 1);
}

/* Notes the full path of the first thing that could not be read; `below` is relative to the root. */
static void note_unread(struct file_search *self, const char *below) {
  struct error *first = &self->result.first_unread;
  struct error error;
  char *path;
  if (first->text[0] != '\0')
    return;
  if (asprintf(&path, "%s/%s", self->search->path, below) < 0)
    memory_exhausted("a path");
  char *full = full_path_new(path, &error);
  (void)error_set(first, "%s", full != NULL ? full : path);
  free(full);
  free(path);
}

/* The directories that the walk could not read so far. */
static void count_unread(struct file_search *self, const struct walk *walk) {
  if (walk_unread(walk) > 0)
    note_unread(self, walk_first_unread(walk));
  self->result.unread_directories = walk_unread(walk);
}

/* Returns the length of its text; 0 too where it is not searched. */
static size_t read_entry(struct file_search *self, const struct walk_entry *entry, char *buffer) {
  int fd = openat(entry->parent, entry->name, open_flags);
  ssize_t filled = fd >= 0 ? fill(fd, buffer) : -1;
  int reason = errno;
  if (fd >= 0)
    (void)close(fd);
  if (filled >= 0)
    return (size_t)filled;
  /* Otherwise it has vanished, or is something else by now. */
  if (reason != ENOENT && reason != ENOTDIR && reason != ELOOP) {
    note_unread(self, entry->path);
    self->result.unread_files++;
  }
  return 0;
}

/* `path` has the prefix. */
static int search_below(struct file_search *self, struct walk *walk, struct selection *selection,
                        struct buffer *path, char *buffer, struct error *error) {
  struct walk_entry entry;
  const size_t prefix = path->length;
  while (!self->result.is_cut && walk_next(walk, &entry)) {
    count_unread(self, walk);
    if (!selection_takes(selection, &entry)) {
      walk_skip(walk);
      continue;
    }
    size_t filled = entry.kind == WALK_FILE ? read_entry(self, &entry, buffer) : 0;
    if (filled == 0)
      continue;
    path->length = prefix;
    buffer_add(path, entry.path, entry.length);
    if (file_search_run(self, path->bytes, path->length, buffer, filled, false, error) != 0)
      return -1;
  }
  count_unread(self, walk);
  return 0;
}

static void count_hidden(struct search_result *result, const struct selection *selection) {
  result->hidden_directories = selection->hidden_directories;
  result->hidden_files = selection->hidden_files;
  if (selection->ignore == NULL)
    return;
  const char *first;
  result->unused_ignores = ignore_unused(selection->ignore, &first);
  (void)error_set(&result->first_unused, "%s", first);
}

static int search_directory(struct file_search *self, const char *path, struct selection *selection,
                            struct error *error) {
  int fd = directory_open(path, error);
  if (fd < 0)
    return -1;
  int result;
  struct buffer prefixed = {0};
  struct walk *walk = walk_new(fd, walk_default_excludes, true);
  if (walk == NULL) {
    result = directory_fail(error, path, errno);
  } else {
    char *buffer = memory_allocate(buffer_size);
    selection_enter(selection, fd);
    add_prefix(self->search, &prefixed);
    result = search_below(self, walk, selection, &prefixed, buffer, error);
    count_hidden(&self->result, selection);
    free(buffer);
  }
  walk_free(walk);
  buffer_release(&prefixed);
  (void)close(fd);
  return result;
}

static int search_file(struct file_search *self, int fd, const char *path, struct error *error) {
  struct named_file file;
  if (named_file_read(&file, fd, path, error) != 0)
    return -1;
  const char *slash = strrchr(path, '/');
  const char *name = slash == NULL || self->search->prefix_paths ? path : slash + 1;
  int result = file_search_run(self, name, strlen(name), file.text, file.length, true, error);
  named_file_release(&file);
  return result;
}

static int search_root(struct file_search *self, const char *path, struct selection *selection,
                       struct error *error) {
  struct error reason;
  int fd = regular_file_open(AT_FDCWD, path, &reason);
  if (fd >= 0) {
    int result = search_file(self, fd, path, error);
    (void)close(fd);
    return result;
  }
  struct stat file = {0};
  if (stat(path, &file) != 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
    return full_path_fail(error, AT_FDCWD, path, "path not found");
  return S_ISDIR(file.st_mode) ? search_directory(self, path, selection, error)
                               : error_set(error, "%s", reason.text);
}

int search_run(const struct search *self, struct buffer *content, struct search_result *result,
               struct error *error) {
  struct selection selection;
  struct line_matcher *pattern = NULL;
  int found = selection_init(&selection, self, error);
  if (found == 0 && (pattern = line_matcher_new(self->pattern, error)) == NULL)
    found = -1;
  if (found == 0) {
    struct file_search search;
    file_search_init(&search, self, pattern, content);
    found = search_root(&search, self->path, &selection, error);
    file_search_finish(&search, result);
  }
  line_matcher_free(pattern);
  selection_release(&selection);
  return found;
}
