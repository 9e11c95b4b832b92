#include "agent/files/access/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "agent/files/access/attributes.h"
#include "agent/files/access/line_range.h"
#include "agent/files/access/regular_file.h"
#include "agent/files/access/target.h"
#include "base/staged_file.h"
#include "base/write_all.h"

/* False too where the file cannot be read. */
static bool has_byte_order_mark(int fd) {
  char begin[LINE_RANGE_MARK_LENGTH];
  ssize_t n = pread(fd, begin, sizeof begin, 0);
  return n > 0 && line_range_is_marked(begin, (size_t)n);
}

/* `old` is the file that exists, or -1. */
static int fill(int fd, int old, const char *content, size_t length) {
  bool keeps_mark = !line_range_is_marked(content, length) && has_byte_order_mark(old);
  if (keeps_mark && write_all(fd, LINE_RANGE_MARK, LINE_RANGE_MARK_LENGTH) != 0)
    return -1;
  return write_all(fd, content, length);
}

/* Explains what errno alone would say misleadingly. */
static int fail(struct error *error, const char *path) {
  if (errno == EWOULDBLOCK)
    return error_set(error, "cannot write file (another process wrote it at the same time): %s",
                     path);
  return error_set(error, "cannot write file (%s): %s", strerror(errno), path);
}

static int fail_to_begin(const struct target *target, struct error *error, const char *path) {
  if (!target->exists || errno == EWOULDBLOCK)
    return fail(error, path);
  return error_set(error, "cannot replace file (no file can be created beside it: %s): %s",
                   strerror(errno), path);
}

static int fail_to_commit(struct error *error, const char *path) {
  if (errno == EBUSY)
    return error_set(error, "cannot replace file (it is a mount point): %s", path);
  return fail(error, path);
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

static int fail_to_keep(struct error *error, const char *path) {
  return error_set(error, "cannot replace file (its rights cannot be kept: %s): %s",
                   strerror(errno), path);
}

static int replace(struct staged_file *staged, int old, const char *content, size_t length,
                   struct error *error, const char *path) {
  if (fill(staged->fd, old, content, length) != 0)
    return fail(error, path);
  if (old >= 0 && attributes_copy(staged->fd, old) != 0)
    return fail_to_keep(error, path);
  if (staged_file_commit(staged) != 0)
    return fail_to_commit(error, path);
  return 0;
}

static int write_target(struct staged_file *staged, const struct target *target,
                        const char *content, size_t length, struct error *error, const char *path) {
  /* Until the old rights are set, nobody else may read the new content. */
  if (staged_file_begin(staged, target->directory, target->name, target->exists ? 0600 : 0666) != 0)
    return fail_to_begin(target, error, path);
  int old = target->exists ? open_old(target) : -1;
  if (target->exists && old < 0)
    return fail_to_keep(error, path);
  int result = replace(staged, old, content, length, error, path);
  if (old >= 0)
    close(old);
  return result;
}

int atomic_file_write(int at, const char *path, const char *content, size_t length,
                      struct error *error) {
  if (length > ATOMIC_FILE_MAX)
    return error_set(error, "content exceeds 10 MB limit");
  struct target target;
  if (target_find(&target, at, path, error) != 0)
    return -1;
  struct staged_file staged;
  int result = write_target(&staged, &target, content, length, error, path);
  staged_file_release(&staged);
  target_release(&target);
  return result;
}
