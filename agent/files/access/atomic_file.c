#include "agent/files/access/atomic_file.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/line_range.h"
#include "agent/files/access/regular_file.h"
#include "agent/files/access/target.h"
#include "base/staged_file.h"
#include "base/write_all.h"

/* False too where the file cannot be read. */
static bool has_byte_order_mark(const struct target *target) {
  struct error ignored;
  char begin[LINE_RANGE_MARK_LENGTH];
  int fd = regular_file_open(target->directory, target->name, &ignored);
  if (fd < 0)
    return false;
  ssize_t n = pread(fd, begin, sizeof begin, 0);
  close(fd);
  return n > 0 && line_range_is_marked(begin, (size_t)n);
}

/* The mode comes last: a change of the owner takes bits of it away. */
static int keep_rights(int fd, const struct stat *old) {
  struct stat file;
  if (fchown(fd, old->st_uid, old->st_gid) != 0)
    (void)!fchown(fd, (uid_t)-1, old->st_gid);
  if (fstat(fd, &file) != 0)
    return -1;
  mode_t mode = old->st_mode & 07777;
  if (file.st_uid != old->st_uid || file.st_gid != old->st_gid)
    mode &= ~(mode_t)(S_ISUID | S_ISGID);
  if (file.st_gid != old->st_gid) /* the new group gets what everybody had */
    mode &= ~(mode_t)S_IRWXG | (mode & S_IRWXO) << 3;
  /* Some file systems have one mode for all files and refuse to change it. */
  return (file.st_mode & 07777) == mode ? 0 : fchmod(fd, mode);
}

static int fill(int fd, const struct target *target, const char *content, size_t length) {
  bool keeps_mark =
      target->exists && !line_range_is_marked(content, length) && has_byte_order_mark(target);
  if (keeps_mark && write_all(fd, LINE_RANGE_MARK, LINE_RANGE_MARK_LENGTH) != 0)
    return -1;
  if (write_all(fd, content, length) != 0)
    return -1;
  return target->exists ? keep_rights(fd, &target->file) : 0;
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

static int replace(struct staged_file *staged, const struct target *target, const char *content,
                   size_t length, struct error *error, const char *path) {
  /* Until the old mode is set, nobody else may read the new content. */
  if (staged_file_begin(staged, target->directory, target->name, target->exists ? 0600 : 0666) != 0)
    return fail_to_begin(target, error, path);
  if (fill(staged->fd, target, content, length) != 0)
    return fail(error, path);
  if (staged_file_commit(staged) != 0)
    return fail_to_commit(error, path);
  return 0;
}

int atomic_file_write(int at, const char *path, const char *content, size_t length,
                      struct error *error) {
  if (length > ATOMIC_FILE_MAX)
    return error_set(error, "content exceeds 10 MB limit");
  struct target target;
  if (target_find(&target, at, path, error) != 0)
    return -1;
  struct staged_file staged;
  int result = replace(&staged, &target, content, length, error, path);
  staged_file_release(&staged);
  target_release(&target);
  return result;
}
