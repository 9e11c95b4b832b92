#include "agent/frontends/request_files/ipc_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/random.h"
#include "base/staged_file.h"
#include "base/write_all.h"

static const int reading = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

int ipc_directory_open(struct ipc_directory *self, const char *path, struct error *error) {
  self->top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return self->top >= 0
             ? 0
             : error_set(error, "cannot open the directory %.200s: %s", path, strerror(errno));
}

void ipc_directory_close(struct ipc_directory *self) {
  descriptor_close(self->tools);
  descriptor_close(self->top);
  *self = IPC_DIRECTORY_NONE;
}

/* If the system does not tell, because of missing rights, `tools` is taken to be the same. */
static bool is_open(const struct ipc_directory *self) {
  errno = ENOENT;
  return staged_file_has_name(self->tools, self->top, IPC_TOOLS) || errno != ENOENT;
}

static int open_tools(const struct ipc_directory *self) {
  return openat(self->top, IPC_TOOLS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opens or makes `tools`; returns -1 with errno. It inherits the set-group-ID bit. */
static int make_tools(const struct ipc_directory *self) {
  struct stat top;
  int fd = open_tools(self);
  if (fd >= 0 || errno != ENOENT)
    return fd;
  if (fstat(self->top, &top) != 0 ||
      (ipc_directory_make(self->top, IPC_TOOLS, top.st_mode & 01777) != 0 && errno != EEXIST))
    return -1;
  return open_tools(self);
}

bool ipc_directory_find_tools(struct ipc_directory *self, struct error *error) {
  if (is_open(self))
    return false;
  descriptor_close(self->tools);
  self->tools = make_tools(self);
  if (self->tools < 0)
    (void)error_set(error, IPC_TOOLS ": %s", strerror(errno));
  return true;
}

bool ipc_directory_is_done(const struct ipc_directory *self) {
  struct stat file;
  return fstatat(self->top, IPC_DONE, &file, 0) == 0 && S_ISREG(file.st_mode);
}

bool ipc_directory_has(const struct ipc_directory *self, const char *name) {
  struct stat file;
  return self->tools >= 0 &&
         (fstatat(self->tools, name, &file, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT);
}

bool ipc_directory_has_file(const struct ipc_directory *self, const char *name) {
  struct stat file;
  return fstatat(self->tools, name, &file, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(file.st_mode);
}

/* A file that grows at this moment is read again when its writer has closed it. */
static int read_open(int fd, size_t left, struct buffer *out) {
  ssize_t length = 1;
  for (; left > 0 && length != 0; left -= length > 0 ? (size_t)length : 0) {
    length = read(fd, buffer_space(out, left), left);
    if (length < 0 && errno != EINTR)
      return -1;
    out->length += length > 0 ? (size_t)length : 0;
  }
  return 0;
}

int ipc_directory_read(const struct ipc_directory *self, const char *name, size_t max,
                       struct buffer *out, struct stat *file) {
  int fd = ipc_directory_open_file(self->tools, name, file);
  if (fd < 0)
    return -1;
  errno = EFBIG;
  int result = -1;
  if ((unsigned long long)file->st_size <= max)
    result = read_open(fd, (size_t)file->st_size, out);
  descriptor_close(fd);
  return result;
}

int ipc_directory_write(const struct ipc_directory *self, const char *name,
                        const struct buffer *bytes) {
  const struct ipc_name hidden = ipc_hidden_name();
  int fd = ipc_directory_make_file(self->tools, hidden.text, bytes->bytes, bytes->length);
  if (fd < 0)
    return -1;
  descriptor_close(fd);
  int result = renameat(self->tools, hidden.text, self->tools, name);
  if (result != 0)
    ipc_directory_remove(self->tools, hidden.text, 0);
  return result;
}

struct ipc_name ipc_name(const char *prefix, const char *id, const char *suffix) {
  struct ipc_name name;
  (void)snprintf(name.text, sizeof name.text, "%s%s%s", prefix, id, suffix);
  return name;
}

struct ipc_name ipc_hidden_name(void) {
  struct ipc_name name;
  (void)snprintf(name.text, sizeof name.text, ".agent-new-%016llx",
                 (unsigned long long)random_u64());
  return name;
}

/* Opens the file that was found, whatever has its name now. Without /proc, the name is looked up
   again, and must be that of the same file. */
static int open_found(int found, int directory, const char *name, const struct stat *file) {
  struct stat opened;
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", found);
  int fd = openat(AT_FDCWD, path, reading); /* musl's open(2) also calls fcntl(2) */
  if (fd >= 0 || errno != ENOENT)
    return fd;
  fd = openat(directory, name, reading | O_NOFOLLOW);
  if (fd < 0 || (fstat(fd, &opened) == 0 && descriptor_same_file(&opened, file)))
    return fd;
  close(fd);
  errno = EAGAIN;
  return -1;
}

int ipc_directory_open_file(int directory, const char *name, struct stat *file) {
  int found = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (found < 0)
    return -1;
  int fd = -1;
  if (fstat(found, file) == 0) {
    errno = ENXIO;
    if (S_ISREG(file->st_mode))
      fd = open_found(found, directory, name, file);
  }
  descriptor_close(found);
  return fd;
}

int ipc_directory_make(int directory, const char *name, mode_t mode) {
  mode_t before = umask(0);
  int made = mkdirat(directory, name, mode);
  (void)umask(before);
  return made;
}

int ipc_directory_make_file(int directory, const char *name, const char *bytes, size_t length) {
  int fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0)
    return -1;
  /* Whatever the umask is: the reader may be another user. */
  if (fchmod(fd, 0644) == 0 && write_all(fd, bytes, length) == 0)
    return fd;
  ipc_directory_remove(directory, name, 0);
  descriptor_close(fd);
  return -1;
}

void ipc_directory_remove(int directory, const char *name, int flags) {
  int error = errno;
  (void)unlinkat(directory, name, flags);
  errno = error;
}
