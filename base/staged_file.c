#include "base/staged_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/file_lock.h"
#include "base/hash.h"
#include "base/write_all.h"

/* How often other processes may come first. Each time, one of them makes progress. */
#define ATTEMPTS_MAX 1000

/* How long the trial run of a program usually takes, many times over. */
#define RENAME_WAIT_MS 1000

static int remove_hidden(const struct staged_file *self) {
  return unlinkat(self->directory, self->hidden, 0) == 0 || errno == ENOENT ? 0 : -1;
}

bool staged_file_has_name(int fd, int directory, const char *name) {
  struct stat opened, named;
  return fd >= 0 && fstat(fd, &opened) == 0 &&
         fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         descriptor_same_file(&opened, &named);
}

/* Whether the hidden name belongs to the open file; while the file is locked, it keeps it. */
static bool is_hidden(const struct staged_file *self, int fd) {
  return staged_file_has_name(fd, self->directory, self->hidden);
}

/* Waits until the owner of a hidden file that this process may not open has renamed it, which takes
   a moment (inject/inject.c), unless the owner was killed. Returns -1 with ENOENT, or ENOLCK if
   the file is still there. */
static int await_rename(const struct staged_file *self) {
  int fd = openat(self->directory, self->hidden, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  int64_t end_ms = clock_monotonic_ms() + RENAME_WAIT_MS;
  while (is_hidden(self, fd) && clock_monotonic_ms() < end_ms)
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  int error = is_hidden(self, fd) ? ENOLCK : ENOENT;
  descriptor_close(fd);
  errno = error;
  return -1;
}

/* Waits for the owner of the hidden file. The file system decides which access a lock needs, and
   the file's mode which access is granted; reading comes first, because a file that is open for
   writing cannot be executed. Returns a descriptor, or -1: ENOENT if there is no such file,
   EWOULDBLOCK if its owner takes too long, ENOLCK if it cannot be locked. */
static int lock_found(const struct staged_file *self) {
  static const int accesses[] = {O_RDONLY, O_WRONLY};
  bool is_denied = false;
  for (size_t i = 0; i < sizeof accesses / sizeof accesses[0]; i++) {
    int fd = openat(self->directory, self->hidden,
                    accesses[i] | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
      return -1;
    is_denied = fd < 0 && errno == EACCES;
    if (fd >= 0 && file_lock(fd, LOCK_EX, STAGED_FILE_WAIT_MS) == 0)
      return fd;
    descriptor_close(fd);
    if (fd >= 0 && errno == EWOULDBLOCK)
      return -1;
  }
  if (is_denied)
    return await_rename(self);
  errno = ENOLCK;
  return -1;
}

/* Removes the hidden file, but not a directory of that name (EISDIR). */
static int remove_found(const struct staged_file *self) {
  int fd = lock_found(self);
  if (fd < 0 && errno == EWOULDBLOCK)
    return -1;
  int result = 0;
  /* If its owner has renamed it meanwhile, it is the target and stays. */
  if (fd >= 0 ? is_hidden(self, fd) : errno != ENOENT)
    result = remove_hidden(self);
  descriptor_close(fd);
  return result;
}

/* Opens the file for reading, too, if that is allowed, because a lock may need it (NFS). If a
   security policy forbids it, the kernel creates the file before it refuses to open it. Returns a
   descriptor, or -1 with errno. */
static int create_hidden(const struct staged_file *self, mode_t mode) {
  static const int accesses[] = {O_RDWR, O_WRONLY};
  int fd = -1;
  for (size_t i = 0; i < sizeof accesses / sizeof accesses[0]; i++) {
    fd = openat(self->directory, self->hidden,
                accesses[i] | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EACCES)
      return fd;
    (void)unlinkat(self->directory, self->hidden, 0);
    errno = EACCES;
  }
  return fd;
}

/* Returns whether the file was created. errno is EEXIST if another attempt may succeed. */
static bool create(struct staged_file *self, mode_t mode) {
  /* A step gets SIGTERM some time before SIGKILL, in which the file can be finished. */
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  (void)sigprocmask(SIG_BLOCK, &signals, &self->mask);
  int fd = create_hidden(self, mode);
  /* Until the file is locked, it looks abandoned and may be removed. The lock is shared so that
     staged_file_seal can take it again; the file system may have none. */
  if (fd >= 0 && (file_lock(fd, LOCK_SH, 0) == 0 || errno != EWOULDBLOCK) && is_hidden(self, fd)) {
    self->fd = fd;
    self->state = STAGED_HIDDEN;
    return true;
  }
  int error = fd >= 0 ? EEXIST : errno;
  descriptor_close(fd);
  (void)sigprocmask(SIG_SETMASK, &self->mask, NULL);
  errno = error;
  return false;
}

int staged_file_begin(struct staged_file *self, int directory, const char *name, mode_t mode) {
  *self = (struct staged_file){.directory = directory, .name = name, .fd = -1};
  (void)snprintf(self->hidden, sizeof self->hidden, ".write-%u-%016llx", (unsigned)geteuid(),
                 (unsigned long long)hash_bytes(name, strlen(name)));
  for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    if (create(self, mode))
      return 0;
    if (errno != EEXIST || remove_found(self) != 0)
      return -1;
  }
  errno = EWOULDBLOCK;
  return -1;
}

int staged_file_seal(struct staged_file *self, mode_t mode) {
  /* EINVAL and ENOSYS: the file system has no storage to sync to. */
  if (fchmod(self->fd, mode) != 0 || (fsync(self->fd) != 0 && errno != EINVAL && errno != ENOSYS))
    return -1;
  self->state = STAGED_SEALED;
  /* The new descriptor takes the shared lock, too, before the old one is closed. */
  int fd = openat(self->directory, self->hidden, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return -1;
  (void)file_lock(fd, LOCK_SH, 0);
  int closed = close(self->fd);
  self->fd = fd;
  return closed;
}

int staged_file_flush(struct staged_file *self) {
  if (self->state == STAGED_HIDDEN && write_all_flush(self->fd) != 0)
    return -1;
  if (!is_hidden(self, self->fd)) {
    errno = EWOULDBLOCK;
    return -1;
  }
  if (self->state == STAGED_HIDDEN)
    self->state = STAGED_FLUSHED;
  return 0;
}

int staged_file_commit(struct staged_file *self) {
  bool is_sealed = self->state == STAGED_SEALED;
  if (self->state != STAGED_FLUSHED && staged_file_flush(self) != 0)
    return -1;
  if (renameat(self->directory, self->hidden, self->directory, self->name) != 0)
    return -1;
  self->state = STAGED_IN_PLACE;
  /* The content was synced or flushed, so the close can lose nothing. It ends the lock. */
  close(self->fd);
  self->fd = -1;
  /* Make the new name survive a power failure. Others see it already, so that an error here is no
     reason to undo the rename. */
  int directory = is_sealed ? openat(self->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (directory >= 0)
    (void)fsync(directory);
  descriptor_close(directory);
  return 0;
}

void staged_file_release(struct staged_file *self) {
  int error = errno;
  if (is_hidden(self, self->fd))
    (void)remove_hidden(self);
  descriptor_close(self->fd);
  if (self->state != STAGED_NONE)
    (void)sigprocmask(SIG_SETMASK, &self->mask, NULL);
  *self = STAGED_FILE_NONE;
  errno = error;
}
