#include "agent/files/access/temp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

/* As often as others may come first; each time one of them gets on. */
#define ATTEMPTS 1000

static int lock(int fd, int how) {
  int result;
  do
    result = flock(fd, how);
  while (result != 0 && errno == EINTR);
  return result;
}

/* Whether the hidden name is the open file's. While the file is locked, nobody else changes that.
 */
static bool is_ours(const struct temp_file *self, int fd) {
  struct stat open_one;
  struct stat named;
  return fstat(fd, &open_one) == 0 &&
         fstatat(self->directory, self->hidden, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

/* Waits for the end of the draft's maker. Which access a lock takes depends on the file system, and
   which one there is on the draft's mode; not to write is best, as long as it may be executed.
   Returns a descriptor, or -1 with ENOENT when there is no draft, else when it cannot be locked. */
static int lock_found(const struct temp_file *self) {
  static const int ways[] = {O_RDONLY, O_RDWR, O_WRONLY};
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    int fd = openat(self->directory, self->hidden,
                    ways[i] | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
      return -1;
    if (fd >= 0 && lock(fd, LOCK_EX) == 0)
      return fd;
    if (fd >= 0)
      close(fd);
  }
  errno = ENOLCK;
  return -1;
}

static int remove_found(const struct temp_file *self) {
  int fd = lock_found(self);
  int result = 0;
  /* Its maker may have renamed it meanwhile: then it is the target, which we leave alone. */
  if (fd >= 0 ? is_ours(self, fd) : errno != ENOENT)
    result = unlinkat(self->directory, self->hidden, 0);
  if (result != 0 && errno == ENOENT)
    result = 0;
  int error = errno;
  if (fd >= 0)
    close(fd);
  errno = error;
  return result;
}

/* Until it is locked, a draft looks like a dead one's, and may be removed. */
static bool keep(const struct temp_file *self, int fd) {
  bool is_locked = lock(fd, LOCK_EX | LOCK_NB) == 0 ||
                   errno != EWOULDBLOCK; /* not every file system has locks */
  return is_locked && is_ours(self, fd);
}

/* SIGTERM comes before SIGKILL when a step is to end: by then a draft is finished. */
static void put_off_the_end(struct temp_file *self) {
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  (void)sigprocmask(SIG_BLOCK, &end, &self->mask);
}

static void allow_the_end(const struct temp_file *self) {
  (void)sigprocmask(SIG_SETMASK, &self->mask, NULL);
}

/* Returns whether there is one now; errno EEXIST: not yet. */
static bool make(struct temp_file *self, mode_t mode) {
  put_off_the_end(self);
  int fd = openat(self->directory, self->hidden, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  mode);
  if (fd >= 0 && keep(self, fd)) {
    self->fd = fd;
    return true;
  }
  int error = fd >= 0 ? EEXIST : errno;
  if (fd >= 0)
    close(fd);
  allow_the_end(self);
  errno = error;
  return false;
}

int temp_file_begin(struct temp_file *self, int directory, const char *name, mode_t mode) {
  *self = (struct temp_file){.directory = directory, .fd = -1};
  (void)snprintf(self->hidden, sizeof self->hidden, ".write-%u-%016llx", (unsigned)geteuid(),
                 (unsigned long long)hash_bytes(name, strlen(name)));
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (make(self, mode)) {
      self->begun = true;
      return 0;
    }
    if (errno != EEXIST || remove_found(self) != 0)
      return -1;
  }
  errno = EWOULDBLOCK;
  return -1;
}

/* So that the new name, too, outlives a power failure; everybody sees it already, and a file system
   that cannot do it is no reason to take it back. */
static void sync_directory(int directory) {
  int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return;
  (void)fsync(fd);
  close(fd);
}

/* Where there is nothing to sync to, there is nothing to lose. */
static int sync_file(int fd) {
  return fsync(fd) == 0 || errno == EINVAL || errno == ENOSYS ? 0 : -1;
}

int temp_file_commit(struct temp_file *self, const char *name) {
  if (sync_file(self->fd) != 0)
    return -1;
  if (!is_ours(self, self->fd)) {
    errno = EWOULDBLOCK;
    return -1;
  }
  if (renameat(self->directory, self->hidden, self->directory, name) != 0)
    return -1;
  /* The lock ends here, not before. Nothing is lost by it any more: all of it was synced. */
  close(self->fd);
  self->fd = -1;
  sync_directory(self->directory);
  return 0;
}

void temp_file_release(struct temp_file *self) {
  int error = errno;
  if (self->fd >= 0) {
    if (is_ours(self, self->fd))
      (void)unlinkat(self->directory, self->hidden, 0);
    close(self->fd);
  }
  self->fd = -1;
  if (self->begun)
    allow_the_end(self);
  self->begun = false;
  errno = error;
}
