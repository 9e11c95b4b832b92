#include "agent/doors/files/shared_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static const int reading = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

static void close_keeping_errno(int fd) {
  int error = errno;
  close(fd);
  errno = error;
}

static bool is_same(const struct stat *left, const struct stat *right) {
  return left->st_ino == right->st_ino && left->st_dev == right->st_dev;
}

/* Where /proc is not mounted the name is looked up again, and has to be that of the same file. */
static int open_by_name(int directory, const char *name, const struct stat *found) {
  struct stat file;
  int fd = openat(directory, name, reading | O_NOFOLLOW);
  if (fd < 0 || (fstat(fd, &file) == 0 && is_same(&file, found)))
    return fd;
  close(fd);
  errno = EAGAIN;
  return -1;
}

/* Opens what was found, whatever has its name now. */
static int open_found(int found, int directory, const char *name, const struct stat *file) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", found);
  int fd = openat(AT_FDCWD, path, reading); /* not open(2): musl then calls fcntl(2), too */
  return fd < 0 && errno == ENOENT ? open_by_name(directory, name, file) : fd;
}

int shared_entry_open_file(int directory, const char *name, struct stat *file) {
  int found = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (found < 0)
    return -1;
  int fd = -1;
  if (fstat(found, file) == 0) {
    errno = ENXIO;
    if (S_ISREG(file->st_mode))
      fd = open_found(found, directory, name, file);
  }
  close_keeping_errno(found);
  return fd;
}

int shared_entry_open_directory(int directory, const char *name) {
  return openat(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int shared_entry_make_directory(int directory, const char *name, mode_t mode) {
  mode_t before = umask(0);
  int made = mkdirat(directory, name, mode);
  int error = errno;
  (void)umask(before);
  errno = error;
  return made;
}

bool shared_entry_is(int directory, const char *name, int fd) {
  struct stat named, opened;
  return fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &opened) == 0 &&
         is_same(&named, &opened);
}
