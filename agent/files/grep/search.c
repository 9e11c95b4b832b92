#include "agent/files/grep/search.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/directory.h"
#include "agent/files/access/full_path.h"
#include "agent/files/access/regular_file.h"
#include "agent/files/glob/glob.h"
#include "agent/files/grep/file_search.h"
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

/* `path` has the prefix. */
static int search_below(struct file_search *self, struct walk *walk, const struct glob *glob,
                        struct buffer *path, char *buffer, struct error *error) {
  struct walk_entry entry;
  const size_t prefix = path->length;
  while (!self->result.is_cut && walk_next(walk, &entry)) {
    if (entry.kind != WALK_FILE ||
        (glob != NULL && !glob_matches(glob, entry.path, entry.length, false)))
      continue;
    int fd = openat(entry.parent, entry.name, open_flags);
    if (fd < 0)
      continue;
    ssize_t filled = fill(fd, buffer);
    (void)close(fd);
    path->length = prefix;
    buffer_add(path, entry.path, entry.length);
    if (filled > 0 &&
        file_search_run(self, path->bytes, path->length, buffer, (size_t)filled, error) != 0)
      return -1;
  }
  return 0;
}

static int search_directory(struct file_search *self, const char *path, const struct glob *glob,
                            char *buffer, struct error *error) {
  int fd = directory_open(path, error);
  if (fd < 0)
    return -1;
  int result;
  struct buffer prefixed = {0};
  struct walk *walk = walk_new(fd, walk_default_excludes, true);
  if (walk == NULL) {
    result = directory_fail(error, path, errno);
  } else {
    add_prefix(self->search, &prefixed);
    result = search_below(self, walk, glob, &prefixed, buffer, error);
    self->result.unread = walk_unread(walk);
  }
  walk_free(walk);
  buffer_release(&prefixed);
  (void)close(fd);
  return result;
}

/* A file that the step names gets a reason when it is not searched. */
static int search_file(struct file_search *self, int fd, char *buffer, const char *path,
                       struct error *error) {
  const char *slash = strrchr(path, '/');
  const char *name = slash == NULL || self->search->prefix_paths ? path : slash + 1;
  ssize_t filled = fill(fd, buffer);
  if (filled < 0)
    (void)full_path_fail(error, AT_FDCWD, path, "cannot read file (%s)", strerror(errno));
  struct stat file;
  if (filled == 0 && fstat(fd, &file) == 0 && file.st_size > SEARCH_FILE_MAX)
    self->result.skipped_root = "a file of more than 1,000,000 bytes";
  else if (filled > 0 && memchr(buffer, '\0', (size_t)filled) != NULL)
    self->result.skipped_root = "a binary file";
  (void)close(fd);
  return filled < 0 ? -1 : file_search_run(self, name, strlen(name), buffer, (size_t)filled, error);
}

static int search_root(struct file_search *self, const char *path, const struct glob *glob,
                       char *buffer, struct error *error) {
  struct error reason;
  int fd = regular_file_open(AT_FDCWD, path, &reason);
  if (fd >= 0)
    return search_file(self, fd, buffer, path, error);
  struct stat file = {0};
  if (stat(path, &file) != 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) {
    self->result.skipped_root = "a path that does not exist";
    return 0;
  }
  return S_ISDIR(file.st_mode) ? search_directory(self, path, glob, buffer, error)
                               : error_set(error, "%s", reason.text);
}

int search_run(const struct search *self, struct buffer *content, struct search_result *result,
               struct error *error) {
  struct glob *glob = NULL;
  if (self->glob != NULL && (glob = glob_new(self->glob, error)) == NULL)
    return -1;
  struct line_matcher *pattern = line_matcher_new(self->pattern, error);
  if (pattern == NULL) {
    glob_free(glob);
    return -1;
  }
  struct file_search search;
  file_search_init(&search, self, pattern, content);
  char *buffer = memory_allocate(buffer_size);
  int found = search_root(&search, self->path, glob, buffer, error);
  file_search_finish(&search, result);
  free(buffer);
  line_matcher_free(pattern);
  glob_free(glob);
  return found;
}
