#include "agent/doors/files/ipc_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/doors/files/shared_entry.h"
#include "base/write_all.h"

#define TOOLS "tools"
#define DONE "done"

#define READ_SIZE ((size_t)16 * 1024)

int ipc_directory_open(struct ipc_directory *self, const char *path, struct error *error) {
  self->top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return self->top >= 0 ? 0 : error_set(error, "%.200s: %s", path, strerror(errno));
}

static void close_tools(struct ipc_directory *self) {
  if (self->tools >= 0)
    close(self->tools);
  self->tools = -1;
}

void ipc_directory_close(struct ipc_directory *self) {
  close_tools(self);
  if (self->top >= 0)
    close(self->top);
  self->top = -1;
}

/* --- tools ----------------------------------------------------------------------------------- */

/* What the system does not show now, because of its rights, is taken to be as it was. */
static bool is_open(const struct ipc_directory *self) {
  struct stat now, opened;
  if (self->tools < 0)
    return false;
  if (fstatat(self->top, TOOLS, &now, AT_SYMLINK_NOFOLLOW) != 0)
    return errno != ENOENT;
  return fstat(self->tools, &opened) == 0 && now.st_ino == opened.st_ino &&
         now.st_dev == opened.st_dev;
}

static int open_tools(const struct ipc_directory *self) {
  return openat(self->top, TOOLS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opened, or made; -1 with errno. The set-group-ID bit is inherited. */
static int make_tools(const struct ipc_directory *self) {
  struct stat top;
  int fd = open_tools(self);
  if (fd >= 0 || errno != ENOENT)
    return fd;
  if (fstat(self->top, &top) != 0 ||
      (shared_entry_make_directory(self->top, TOOLS, top.st_mode & 01777) != 0 && errno != EEXIST))
    return -1;
  return open_tools(self);
}

enum ipc_tools ipc_directory_find_tools(struct ipc_directory *self, struct error *error) {
  if (is_open(self))
    return IPC_TOOLS_SAME;
  close_tools(self);
  self->tools = make_tools(self);
  if (self->tools >= 0)
    return IPC_TOOLS_OTHER;
  (void)error_set(error, TOOLS ": %s", strerror(errno));
  return IPC_TOOLS_MISSING;
}

bool ipc_directory_is_done(const struct ipc_directory *self) {
  struct stat file;
  return fstatat(self->top, DONE, &file, 0) == 0 && S_ISREG(file.st_mode);
}

/* --- files ----------------------------------------------------------------------------------- */

bool ipc_directory_has(const struct ipc_directory *self, const char *name) {
  struct stat file;
  return self->tools >= 0 &&
         (fstatat(self->tools, name, &file, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT);
}

bool ipc_directory_has_file(const struct ipc_directory *self, const char *name) {
  struct stat file;
  return fstatat(self->tools, name, &file, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(file.st_mode);
}

/* Of this size; it may grow meanwhile. A byte more is asked for, so that the end is found without
   more memory: what is touched first costs more than what is read into it. */
static enum ipc_read read_open(int fd, size_t size, size_t max, struct buffer *out) {
  size_t before = out->length;
  (void)buffer_space(out, size + 1);
  for (;;) {
    size_t left = out->capacity - out->length;
    size_t room = left > 0 ? left : READ_SIZE;
    ssize_t length = read(fd, buffer_space(out, room), room);
    if (length < 0 && errno == EINTR)
      continue;
    if (length <= 0)
      return length == 0 ? IPC_READ : IPC_READ_ERROR;
    out->length += (size_t)length;
    if (out->length - before > max)
      return IPC_READ_TOO_LONG;
  }
}

enum ipc_read ipc_directory_read(const struct ipc_directory *self, const char *name, size_t max,
                                 struct buffer *out, struct stat *file) {
  int fd = shared_entry_open_file(self->tools, name, file);
  if (fd < 0)
    return errno == ENOENT ? IPC_READ_NOTHING : errno == ENXIO ? IPC_READ_NO_FILE : IPC_READ_ERROR;
  enum ipc_read result = IPC_READ_TOO_LONG;
  if ((unsigned long long)file->st_size <= max)
    result = read_open(fd, (size_t)file->st_size, max, out);
  int error = errno;
  close(fd);
  errno = error;
  return result;
}

int ipc_directory_write(const struct ipc_directory *self, const char *hidden, const char *name,
                        const struct buffer *bytes) {
  int fd = openat(self->tools, hidden, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0)
    return -1;
  int result = fchmod(fd, 0644); /* whatever the umask: the reader may be another user */
  if (result == 0)
    result = write_all(fd, bytes->bytes, bytes->length);
  if (result == 0)
    result = renameat(self->tools, hidden, self->tools, name);
  int error = errno;
  close(fd);
  if (result != 0)
    (void)unlinkat(self->tools, hidden, 0);
  errno = error;
  return result;
}
