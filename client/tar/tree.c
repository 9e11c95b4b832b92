#include "client/tar/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/printable.h"

/* The most nested directories: each keeps a descriptor open. */
#define DEPTH_MAX 256

/* Bytes of a file that are read at once. */
#define PIECE ((size_t)64 * 1024)

struct walk {
  const struct tree_reader *reader;
  struct buffer name; /* "./a/b"; the NUL is not counted */
  unsigned depth;
};

bool tree_has_changed(int fd, const struct stat *before) {
  struct stat now;
  return fstat(fd, &now) == 0 &&
         (now.st_size != before->st_size || now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
          now.st_mtim.tv_nsec != before->st_mtim.tv_nsec);
}

static int leave_out(struct walk *self, const char *why) {
  const struct tree_report *report = self->reader->report;
  if (report != NULL)
    report->leave_out(report->owner, self->name.bytes, why);
  return 0;
}

/* What has disappeared is no longer an entry. */
static int leave_out_unread(struct walk *self) {
  return errno == ENOENT ? 0 : leave_out(self, strerror(errno));
}

/* A file cannot be read to its end. Its entry has begun and is completed. */
static void leave_out_rest(struct walk *self, const char *why) {
  const struct tree_report *report = self->reader->report;
  struct buffer name = {0};
  buffer_add_string(&name, "the rest of ");
  buffer_add(&name, self->name.bytes, self->name.length + 1);
  report->leave_out(report->owner, name.bytes, why);
  buffer_release(&name);
}

static int end_entry(struct walk *self, const struct tree_entry *entry) {
  return self->reader->end != NULL ? self->reader->end(self->reader->owner, entry) : 0;
}

static ssize_t read_piece(int fd, char *space, uint64_t left) {
  ssize_t length;
  do
    length = read(fd, space, left < PIECE ? (size_t)left : PIECE);
  while (length < 0 && errno == EINTR);
  return length;
}

/* The first piece is read before the entry begins, because a file that cannot be read at all is
   left out. */
static int read_content(struct walk *self, int fd, const struct tree_entry *entry) {
  const struct tree_reader *reader = self->reader;
  char *space = memory_allocate(PIECE);
  uint64_t left = entry->size;
  ssize_t length = read_piece(fd, space, left);
  int result = length < 0 ? leave_out(self, strerror(errno)) : reader->begin(reader->owner, entry);
  const bool has_begun = length >= 0;
  while (result == 0 && length > 0 && left > 0) {
    result = reader->put(reader->owner, space, (size_t)length);
    left -= (uint64_t)length;
    if (left > 0)
      length = read_piece(fd, space, left);
  }
  if (has_begun && result == 0 && length < 0)
    leave_out_rest(self, strerror(errno));
  else if (has_begun && result == 0 && (left > 0 || tree_has_changed(fd, entry->status)))
    reader->report->warn(reader->report->owner, entry->name,
                         left > 0 ? "it became shorter while it was read"
                                  : "it changed while it was read");
  free(space);
  return has_begun && result == 0 ? end_entry(self, entry) : result;
}

static int read_file(struct walk *self, int parent, const char *name) {
  struct stat status;
  int result = 0, fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &status) != 0) {
    result = leave_out_unread(self);
  } else if (S_ISREG(status.st_mode)) {
    const struct tree_entry entry = {self->name.bytes, NULL, &status, (uint64_t)status.st_size};
    result = read_content(self, fd, &entry);
  }
  if (fd >= 0)
    (void)close(fd);
  return result;
}

/* Passes on a link, or a file without its content. */
static int pass_entry(struct walk *self, const struct stat *status, const char *link) {
  const struct tree_entry entry = {self->name.bytes, link, status,
                                   link == NULL ? (uint64_t)status->st_size : 0};
  const int result = self->reader->begin(self->reader->owner, &entry);
  return result == 0 ? end_entry(self, &entry) : result;
}

static int read_link(struct walk *self, int parent, const char *name, const struct stat *status) {
  char target[PATH_MAX];
  ssize_t length = readlinkat(parent, name, target, sizeof target - 1);
  if (length < 0)
    return leave_out_unread(self);
  target[length] = '\0';
  return pass_entry(self, status, target);
}

static int read_directory(struct walk *self, int fd);

static int read_named(struct walk *self, int parent, const char *name) {
  struct stat status;
  if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
    return leave_out_unread(self);
  if (S_ISREG(status.st_mode))
    return self->reader->put != NULL ? read_file(self, parent, name)
                                     : pass_entry(self, &status, NULL);
  if (S_ISLNK(status.st_mode))
    return read_link(self, parent, name, &status);
  if (!S_ISDIR(status.st_mode))
    return leave_out(self, printable_file_kind(status.st_mode));
  if (self->depth == DEPTH_MAX)
    return leave_out(self, "too many nested directories");
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return leave_out_unread(self);
  buffer_add(&self->name, "/", 2);
  self->name.length--;
  return read_directory(self, fd);
}

static int read_entries(struct walk *self, DIR *directory) {
  const size_t length = self->name.length;
  int result = 0;
  while (result == 0) {
    errno = 0;
    const struct dirent *entry = readdir(directory);
    if (entry == NULL)
      return errno == 0 ? 0 : leave_out_unread(self);
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
      continue;
    buffer_add(&self->name, entry->d_name, strlen(entry->d_name) + 1);
    self->name.length--;
    result = read_named(self, dirfd(directory), entry->d_name);
    result = result == TREE_SKIP ? 0 : result;
    self->name.length = length;
    self->name.bytes[length] = '\0';
  }
  return result;
}

/* Closes the descriptor. The name ends with a slash. */
static int read_directory(struct walk *self, int fd) {
  const struct tree_reader *reader = self->reader;
  struct stat status;
  DIR *directory = fdopendir(fd);
  if (directory == NULL || fstat(fd, &status) != 0) {
    const int result = leave_out_unread(self);
    (void)(directory != NULL ? closedir(directory) : close(fd));
    return result;
  }
  const struct tree_entry entry = {self->name.bytes, NULL, &status, 0};
  self->depth++;
  int result = reader->begin(reader->owner, &entry);
  if (result == 0)
    result = read_entries(self, directory);
  if (result == 0)
    result = end_entry(self, &(struct tree_entry){self->name.bytes, NULL, &status, 0});
  self->depth--;
  (void)closedir(directory);
  return result;
}

int tree_read(const char *directory, const struct tree_reader *reader, struct error *error) {
  struct walk self = {.reader = reader};
  int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return error_set(error, "cannot read %s: %s", directory, strerror(errno));
  buffer_add(&self.name, "./", 3);
  self.name.length--;
  int result = read_directory(&self, fd);
  buffer_release(&self.name);
  return result;
}
