#include "inject/staged_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As often as another process may take our hidden file for a dead one's before it is locked. */
#define ATTEMPTS 100

/* Of the 64 bits that make a hidden name. */
#define RANDOM_DIGITS 16

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1U << 1) /* linux/fs.h */
#endif

static int remove_contents(int fd) {
  DIR *directory = fdopendir(fd);
  if (directory == NULL) {
    close(fd);
    return -1;
  }
  int result = 0;
  for (const struct dirent *entry; result == 0 && (entry = readdir(directory)) != NULL;)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      result = staged_file_remove(dirfd(directory), entry->d_name);
  closedir(directory);
  return result;
}

int staged_file_remove(int parent_fd, const char *name) {
  if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
    return 0;
  if (errno != EISDIR && errno != EPERM)
    return -1;
  int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT ? 0 : -1;
  (void)fchmod(fd, 0700); /* a directory may forbid even its owner to empty it */
  if (remove_contents(fd) != 0)
    return -1;
  return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -1;
}

/* The prefix and RANDOM_DIGITS: what else begins like that is somebody's own. */
static bool is_hidden_name(const char *name, const char *prefix) {
  size_t length = strlen(prefix);
  return strncmp(name, prefix, length) == 0 && strlen(name + length) == RANDOM_DIGITS &&
         strspn(name + length, "0123456789abcdef") == RANDOM_DIGITS;
}

/* Removes what processes that are gone left under hidden names; that it fails is no reason to fail.
 */
static void remove_stale(int parent_fd, const char *prefix) {
  int listing = openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = listing < 0 ? NULL : fdopendir(listing);
  if (directory == NULL)
    return;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (!is_hidden_name(entry->d_name, prefix))
      continue;
    int fd = openat(parent_fd, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
      continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
      (void)staged_file_remove(parent_fd, entry->d_name);
    close(fd);
  }
  closedir(directory);
}

static int make_hidden(struct staged_file *self) {
  if (!self->is_directory)
    return openat(self->parent_fd, self->hidden, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  0700);
  if (mkdirat(self->parent_fd, self->hidden, 0700) != 0)
    return -1;
  int fd = openat(self->parent_fd, self->hidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int error = errno;
  if (fd < 0)
    (void)unlinkat(self->parent_fd, self->hidden, AT_REMOVEDIR);
  errno = error;
  return fd;
}

/* Between its making and its locking the hidden file looks like a dead one's, and may be removed.
 */
static int make_and_lock(struct staged_file *self, const char *prefix) {
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
      return -1;
    (void)snprintf(self->hidden, sizeof self->hidden, "%s%016llx", prefix,
                   (unsigned long long)random);
    self->fd = make_hidden(self);
    if (self->fd < 0 && errno != EEXIST && errno != ENOENT)
      return -1;
    if (self->fd < 0)
      continue;
    struct stat made;
    (void)flock(self->fd, LOCK_SH); /* some network file systems have no locks */
    if (fstat(self->fd, &made) == 0 && made.st_nlink > 0) {
      self->pending = true;
      return 0;
    }
    close(self->fd);
    self->fd = -1;
    errno = EBUSY;
  }
  return -1; /* as the last attempt said */
}

int staged_file_begin(struct staged_file *self, const char *parent, const char *name,
                      bool is_directory) {
  char prefix[sizeof self->hidden - 16];
  *self = (struct staged_file){.fd = -1, .is_directory = is_directory};
  self->parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (self->parent_fd < 0)
    return -1;
  int length = snprintf(prefix, sizeof prefix, ".%s.inject-", name);
  if (length < 0 || (size_t)length >= sizeof prefix) {
    errno = ENAMETOOLONG;
    return -1;
  }
  (void)snprintf(self->name, sizeof self->name, "%s", name);
  remove_stale(self->parent_fd, prefix);
  return make_and_lock(self, prefix);
}

int staged_file_seal(struct staged_file *self, unsigned mode) {
  if (fchmod(self->fd, (mode_t)mode) != 0 || fsync(self->fd) != 0)
    return -1;
  if (self->is_directory)
    return 0;
  /* The new descriptor takes over the lock before the old one, which may write, is closed: no file
     that is open for writing can be executed. */
  int fd = openat(self->parent_fd, self->hidden, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return -1;
  (void)flock(fd, LOCK_SH);
  int closed = close(self->fd);
  self->fd = fd;
  return closed;
}

static int exchange(struct staged_file *self) {
  return (int)syscall(SYS_renameat2, self->parent_fd, self->hidden, self->parent_fd, self->name,
                      RENAME_EXCHANGE);
}

/* A directory cannot be renamed over one that is not empty: they change places. The old one then
   lies under the hidden name, until the release. */
static int replace_directory(struct staged_file *self) {
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    self->pending = false;
    if (renameat(self->parent_fd, self->hidden, self->parent_fd, self->name) == 0)
      return 0;
    self->pending = true;
    if (errno != ENOTEMPTY && errno != EEXIST)
      return -1;
    self->exchanged = exchange(self) == 0;
    if (self->exchanged)
      return 0;
    /* Not known here: an old kernel, a network or overlay file system. */
    if (errno != EINVAL && errno != ENOSYS && errno != EXDEV)
      return -1;
    if (staged_file_remove(self->parent_fd, self->name) != 0)
      return -1;
  }
  return -1; /* others put theirs there as often */
}

int staged_file_commit(struct staged_file *self) {
  if (self->is_directory) {
    if (replace_directory(self) != 0)
      return -1;
  } else {
    if (renameat(self->parent_fd, self->hidden, self->parent_fd, self->name) != 0)
      return -1;
    self->pending = false;
  }
  return fsync(self->parent_fd);
}

void staged_file_revert(struct staged_file *self) {
  if (self->exchanged) {
    (void)exchange(self);
  } else if (!self->pending) {
    (void)renameat(self->parent_fd, self->name, self->parent_fd, self->hidden);
    self->pending = true;
  }
  self->exchanged = false;
}

void staged_file_release(struct staged_file *self) {
  if (self->pending)
    (void)staged_file_remove(self->parent_fd, self->hidden);
  if (self->fd >= 0)
    close(self->fd);
  if (self->parent_fd >= 0)
    close(self->parent_fd);
}
