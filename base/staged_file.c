#include "base/staged_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/write_all.h"

/* How often other processes may come first; each time one of them has made progress. */
#define ATTEMPTS_MAX 1000

/* How long a commit waits for the lock of what it replaces: SIGTERM is blocked meanwhile. */
#define OLD_LOCK_MS 1000

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1U << 1) /* linux/fs.h, which musl's headers do not come with */
#endif

static void close_keeping_errno(int fd) {
  int error = errno;
  if (fd >= 0)
    close(fd);
  errno = error;
}

/* --- removing --- */

static int remove_contents(int fd) {
  DIR *directory = fdopendir(fd);
  if (directory == NULL) {
    close_keeping_errno(fd);
    return -1;
  }
  int result = 0;
  for (const struct dirent *entry; result == 0 && (entry = readdir(directory)) != NULL;)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      result = staged_file_remove(dirfd(directory), entry->d_name);
  closedir(directory);
  return result;
}

int staged_file_remove(int directory, const char *name) {
  if (unlinkat(directory, name, 0) == 0 || errno == ENOENT)
    return 0;
  if (errno != EISDIR && errno != EPERM)
    return -1;
  int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT ? 0 : -1;
  (void)fchmod(fd, 0700); /* a directory may forbid even its owner to empty it */
  if (remove_contents(fd) != 0)
    return -1;
  return unlinkat(directory, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -1;
}

/* Removes a directory under the hidden name in such a way that its maker, if it lives after all,
   either has renamed it before or cannot rename it any more: a reader never finds a directory that
   is being emptied. */
static int remove_hidden_directory(const struct staged_file *self) {
  char old[sizeof self->hidden + sizeof "-old"];
  (void)snprintf(old, sizeof old, "%s-old", self->hidden);
  if (staged_file_remove(self->directory, old) != 0)
    return -1;
  if (renameat(self->directory, self->hidden, self->directory, old) != 0)
    return errno == ENOENT ? 0 : -1;
  return staged_file_remove(self->directory, old);
}

static int remove_hidden(const struct staged_file *self) {
  if (self->is_directory)
    return remove_hidden_directory(self);
  return unlinkat(self->directory, self->hidden, 0) == 0 || errno == ENOENT ? 0 : -1;
}

/* --- the hidden name and its lock --- */

static int lock(int fd, int how) {
  int result;
  do
    result = flock(fd, how);
  while (result != 0 && errno == EINTR);
  return result;
}

static bool has_name(int fd, int directory, const char *name) {
  struct stat opened;
  struct stat named;
  return fd >= 0 && fstat(fd, &opened) == 0 &&
         fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* Whether the hidden name is that of the open file. It stays so while the file is locked. */
static bool is_hidden(const struct staged_file *self, int fd) {
  return has_name(fd, self->directory, self->hidden);
}

/* Waits for the maker of what lies under the hidden name. Which access a lock takes depends on the
   file system, and which one there is on the file's mode; not to write is best, as long as it may
   be executed. Returns a descriptor, or -1 with ENOENT when there is no such file, else when it
   cannot be locked. */
static int lock_found(const struct staged_file *self) {
  static const int accesses[] = {O_RDONLY, O_RDWR, O_WRONLY};
  for (size_t i = 0; i < sizeof accesses / sizeof accesses[0]; i++) {
    int fd = openat(self->directory, self->hidden,
                    accesses[i] | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
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

/* A file does not make room for itself by removing a directory (EISDIR). */
static int remove_found(const struct staged_file *self) {
  int fd = lock_found(self);
  int result = 0;
  /* Its maker may have renamed it meanwhile: then it is the target, which is left alone. */
  if (fd >= 0 ? is_hidden(self, fd) : errno != ENOENT)
    result = remove_hidden(self);
  close_keeping_errno(fd);
  return result;
}

/* A file's lock is a shared one, for staged_file_seal. A directory's is not: between mkdirat and
   openat another maker may have put its own there, and only one of the two may go on with it. */
static int lock_own(const struct staged_file *self, int fd) {
  return lock(fd, (self->is_directory ? LOCK_EX : LOCK_SH) | LOCK_NB);
}

/* Until it is locked it looks like a dead maker's, and may be removed. */
static bool lock_made(const struct staged_file *self, int fd) {
  bool is_locked = lock_own(self, fd) == 0 || errno != EWOULDBLOCK; /* or there are no locks */
  return is_locked && is_hidden(self, fd);
}

/* --- begin --- */

/* SIGTERM comes before SIGKILL when a step is to end: by then the file is finished. */
static void block_sigterm(struct staged_file *self) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  (void)sigprocmask(SIG_BLOCK, &signals, &self->mask);
}

static void restore_signals(const struct staged_file *self) {
  (void)sigprocmask(SIG_SETMASK, &self->mask, NULL);
}

static int make_hidden(const struct staged_file *self, mode_t mode) {
  if (!self->is_directory)
    return openat(self->directory, self->hidden, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  mode);
  if (mkdirat(self->directory, self->hidden, mode) != 0)
    return -1;
  int fd = openat(self->directory, self->hidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT)
    errno = EEXIST; /* another process took it for a dead one's */
  return fd;
}

/* Returns whether it was made; errno EEXIST: not this time. */
static bool make(struct staged_file *self, mode_t mode) {
  block_sigterm(self);
  int fd = make_hidden(self, mode);
  if (fd >= 0 && lock_made(self, fd)) {
    self->fd = fd;
    self->state = STAGED_HIDDEN;
    return true;
  }
  int error = fd >= 0 ? EEXIST : errno;
  if (fd >= 0)
    close(fd);
  restore_signals(self);
  errno = error;
  return false;
}

static int begin(struct staged_file *self, mode_t mode) {
  (void)snprintf(self->hidden, sizeof self->hidden, ".write-%u-%016llx", (unsigned)geteuid(),
                 (unsigned long long)hash_bytes(self->name, strlen(self->name)));
  for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    if (make(self, mode))
      return 0;
    if (errno != EEXIST || remove_found(self) != 0)
      return -1;
  }
  errno = EWOULDBLOCK;
  return -1;
}

int staged_file_begin(struct staged_file *self, int directory, const char *name, mode_t mode) {
  *self = (struct staged_file){.directory = directory, .name = name, .fd = -1, .replaced = -1};
  return begin(self, mode);
}

int staged_directory_begin(struct staged_file *self, int directory, const char *name) {
  *self = (struct staged_file){
      .is_directory = true, .directory = directory, .name = name, .fd = -1, .replaced = -1};
  return begin(self, 0700);
}

/* --- seal, commit, release --- */

/* A file system that has nothing to sync to loses nothing. */
static int sync_file(int fd) {
  return fsync(fd) == 0 || errno == EINVAL || errno == ENOSYS ? 0 : -1;
}

/* So that the new name, too, outlives a power failure. Everybody sees the name already: a file
   system that cannot sync a directory is no reason to take it back. */
static void sync_directory(int directory) {
  int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return;
  (void)fsync(fd);
  close(fd);
}

int staged_file_seal(struct staged_file *self, mode_t mode) {
  if (fchmod(self->fd, mode) != 0 || sync_file(self->fd) != 0)
    return -1;
  self->state = STAGED_SEALED;
  if (self->is_directory)
    return 0;
  /* The new descriptor has the shared lock, too, before the old one is closed. */
  int fd = openat(self->directory, self->hidden, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return -1;
  (void)lock(fd, LOCK_SH);
  int closed = close(self->fd);
  self->fd = fd;
  return closed;
}

/* Gives the hidden file its name. */
static int put_in_place(struct staged_file *self) {
  if (renameat(self->directory, self->hidden, self->directory, self->name) != 0)
    return -1;
  self->state = STAGED_IN_PLACE;
  return 0;
}

static int exchange(const struct staged_file *self) {
  return (int)syscall(SYS_renameat2, self->directory, self->hidden, self->directory, self->name,
                      RENAME_EXCHANGE);
}

/* What has the name. A link, and a file that may not be read, can be recognised but not locked. */
static int open_old(const struct staged_file *self) {
  int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (self->is_directory ? O_DIRECTORY : 0);
  int fd = openat(self->directory, self->name, O_RDONLY | flags);
  return fd >= 0 ? fd : openat(self->directory, self->name, O_PATH | flags);
}

/* Its maker gives it up just after the commit, and makers that waited for that one as soon as they
   see that it has its name. Whoever else holds it is not waited for longer. */
static void lock_old(int old) {
  for (int waited_ms = 0; waited_ms < OLD_LOCK_MS; waited_ms++) {
    if (lock(old, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
      return;
    (void)usleep(1000);
  }
}

/* Lets the new one and the old one change places. The old one is locked before: under the
   hidden name it looks like a dead maker's. */
static int exchange_with_old(struct staged_file *self) {
  int old = open_old(self);
  if (old >= 0)
    lock_old(old);
  if (exchange(self) != 0) {
    close_keeping_errno(old);
    return -1;
  }
  self->state = STAGED_EXCHANGED;
  self->replaced = old;
  return 0;
}

/* A directory cannot be renamed over one that is not empty. */
static int replace_directory(struct staged_file *self) {
  for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    if (put_in_place(self) == 0)
      return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
      return -1;
    if (exchange_with_old(self) == 0)
      return 0;
    /* An old kernel, a network or overlay file system does not know how. */
    if (errno != EINVAL && errno != ENOSYS && errno != EXDEV)
      return -1;
    if (staged_file_remove(self->directory, self->name) != 0)
      return -1;
  }
  return -1; /* others put theirs there as often */
}

static bool has_old_file(const struct staged_file *self) {
  struct stat old;
  return fstatat(self->directory, self->name, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
         !S_ISDIR(old.st_mode);
}

static int replace_file(struct staged_file *self) {
  bool replaces = has_old_file(self);
  if (self->keeps_replaced && replaces && exchange_with_old(self) == 0)
    return 0;
  if (put_in_place(self) != 0)
    return -1;
  if (self->keeps_replaced && !replaces)
    return 0;
  /* Nothing is lost by it any more: all of it was synced or flushed. */
  close(self->fd);
  self->fd = -1;
  return 0;
}

int staged_file_commit(struct staged_file *self) {
  bool is_sealed = self->state == STAGED_SEALED;
  if (!is_sealed && write_all_flush(self->fd) != 0)
    return -1;
  if (!is_hidden(self, self->fd)) {
    errno = EWOULDBLOCK;
    return -1;
  }
  if ((self->is_directory ? replace_directory(self) : replace_file(self)) != 0)
    return -1;
  /* The lock ends here, not before: whoever replaces this one takes it, and keeps it. */
  if (self->fd >= 0)
    (void)lock(self->fd, LOCK_UN);
  if (is_sealed)
    sync_directory(self->directory);
  return 0;
}

void staged_file_revert(struct staged_file *self) {
  bool reverted = false;
  if (self->fd >= 0)
    (void)lock_own(self, self->fd); /* it is to be under the hidden name again */
  if (!has_name(self->fd, self->directory, self->name))
    return;
  if (self->state == STAGED_EXCHANGED && is_hidden(self, self->replaced))
    reverted = exchange(self) == 0;
  else if (self->state == STAGED_IN_PLACE)
    reverted = renameat(self->directory, self->name, self->directory, self->hidden) == 0;
  if (reverted)
    self->state = STAGED_HIDDEN;
}

void staged_file_release(struct staged_file *self) {
  int error = errno;
  bool is_made = self->state == STAGED_HIDDEN || self->state == STAGED_SEALED;
  if (is_hidden(self, is_made ? self->fd : self->replaced))
    (void)remove_hidden(self);
  if (self->fd >= 0)
    close(self->fd);
  if (self->replaced >= 0)
    close(self->replaced);
  if (self->state != STAGED_NONE)
    restore_signals(self);
  *self = STAGED_FILE_NONE;
  errno = error;
}
