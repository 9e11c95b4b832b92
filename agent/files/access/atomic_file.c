#include "agent/files/access/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/files/access/attributes.h"
#include "agent/files/access/path.h"
#include "agent/files/access/regular_file.h"
#include "agent/files/access/target.h"
#include "base/staged_file.h"
#include "base/utf8.h"
#include "base/write_all.h"

/* False too where the file cannot be read. */
static bool has_byte_order_mark(int fd) {
  char begin[UTF8_MARK_LENGTH];
  ssize_t n = pread(fd, begin, sizeof begin, 0);
  return n > 0 && utf8_is_marked(begin, (size_t)n);
}

/* What was asked for, and where its error goes. */
struct request {
  int at;
  const char *path, *content;
  size_t length;
  int source; /* a file that has the content, from its beginning; -1: `content` is it */
  struct error *error;
};

static int fail(const struct request *self, const char *what, const char *why) {
  return path_fail(self->error, self->at, self->path, "%s%s)", what, why);
}

/* Explains what errno alone would say misleadingly. */
static int fail_to_write(const struct request *self) {
  bool was_raced = errno == EWOULDBLOCK;
  return fail(self, "cannot write file (",
              was_raced ? "another process wrote it at the same time" : strerror(errno));
}

static int fail_to_begin(const struct request *self, const struct target *target) {
  if (!target->exists || errno == EWOULDBLOCK)
    return fail_to_write(self);
  return fail(self, "cannot replace file (no file can be created beside it: ", strerror(errno));
}

static int fail_to_keep(const struct request *self) {
  return fail(self, "cannot replace file (its rights cannot be kept: ", strerror(errno));
}

static int fail_to_commit(const struct request *self) {
  return errno == EBUSY ? fail(self, "cannot replace file (", "it is a mount point")
                        : fail_to_write(self);
}

/* Opens the file that exists. Where it may not be read, it may be written, which is enough to ask
   for its attributes. */
static int open_old(const struct target *target) {
  struct error ignored;
  int fd = regular_file_open(target->directory, target->name, &ignored);
  if (fd >= 0)
    return fd;
  return openat(target->directory, target->name,
                O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
}

static int copy(int to, int from) {
  char bytes[65536];
  ssize_t length;
  for (off_t at = 0; (length = pread(from, bytes, sizeof bytes, at)) > 0; at += length)
    if (write_all(to, bytes, (size_t)length) != 0)
      return -1;
  if (length < 0 && errno == EBADF)
    errno = EACCES; /* it could be opened for writing only */
  return length == 0 ? 0 : -1;
}

static int fill(const struct request *self, int fd, int old) {
  if (self->source >= 0)
    return copy(fd, self->source);
  bool keeps_mark = !utf8_is_marked(self->content, self->length) && has_byte_order_mark(old);
  if (keeps_mark && write_all(fd, UTF8_MARK, UTF8_MARK_LENGTH) != 0)
    return -1;
  return write_all(fd, self->content, self->length);
}

/* `old` is the file that exists, or -1. */
static int replace(const struct request *self, struct staged_file *staged, int old) {
  if (fill(self, staged->fd, old) != 0)
    return fail_to_write(self);
  if (old >= 0 && attributes_copy(staged->fd, old) != 0)
    return fail_to_keep(self);
  if (staged_file_commit(staged) != 0)
    return fail_to_commit(self);
  return 0;
}

static int write_staged(const struct request *self, struct staged_file *staged,
                        const struct target *target) {
  /* Until the old rights are set, nobody else may read the new content. */
  if (staged_file_begin(staged, target->directory, target->name, target->exists ? 0600 : 0666) != 0)
    return fail_to_begin(self, target);
  int old = target->exists ? open_old(target) : -1;
  if (target->exists && old < 0)
    return fail_to_keep(self);
  int result = replace(self, staged, old);
  if (old >= 0)
    close(old);
  return result;
}

static int write_target(const struct request *self, const struct target *target) {
  struct staged_file staged;
  int result = write_staged(self, &staged, target);
  staged_file_release(&staged);
  return result;
}

int atomic_file_write(int at, const char *path, const char *content, size_t length,
                      struct error *error) {
  if (length > ATOMIC_FILE_MAX)
    return error_set(error, "content exceeds 10 MB limit");
  const struct request request = {at, path, content, length, -1, error};
  struct target target;
  if (target_find(&target, at, path, error) != 0)
    return -1;
  int result = write_target(&request, &target);
  target_release(&target);
  return result;
}

/* --- moving --- */

static bool is_same_file(int fd, const struct target *target) {
  struct stat file;
  return target->exists && fstat(fd, &file) == 0 && file.st_dev == target->file.st_dev &&
         file.st_ino == target->file.st_ino;
}

static int keep_attributes(const struct request *self, int fd, const struct target *target) {
  if (!target->exists)
    return 0;
  int old = open_old(target);
  if (old < 0)
    return fail_to_keep(self);
  int result = attributes_copy(fd, old) == 0 ? 0 : fail_to_keep(self);
  close(old);
  return result;
}

static int move_to_device(struct request *self, int fd, const struct target *from,
                          const struct target *to) {
  self->source = fd;
  int result = write_target(self, to);
  if (result == 0)
    (void)unlinkat(from->directory, from->name, 0);
  return result;
}

static int move(struct request *self, int fd, const struct target *from, const struct target *to) {
  if (keep_attributes(self, fd, to) != 0)
    return -1;
  if (renameat(from->directory, from->name, to->directory, to->name) == 0)
    return 0;
  return errno == EXDEV ? move_to_device(self, fd, from, to) : fail_to_commit(self);
}

int atomic_file_move(int fd, const struct target *from, const char *path, struct error *error) {
  struct request request = {.at = AT_FDCWD, .path = path, .source = -1, .error = error};
  struct target to;
  if (target_find(&to, AT_FDCWD, path, error) != 0)
    return -1;
  int result = is_same_file(fd, &to) ? 0 : move(&request, fd, from, &to);
  target_release(&to);
  return result;
}
