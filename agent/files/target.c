#include "agent/files/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "agent/files/regular_file.h"

/* As many as the kernel follows. */
#define LINKS_MOST 40

enum found { FOUND_END, FOUND_LINK, FOUND_OTHER, FOUND_ERROR };

static int open_directory(int at, const char *path) {
  return openat(at, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Made from the first one on; those that exist are no error. */
static int make_directories(int at, char *path) {
  int fd = open_directory(at, path);
  if (fd >= 0 || errno != ENOENT)
    return fd;
  char *slash = path;
  while (slash != NULL) {
    slash = strchr(slash + 1, '/');
    if (slash != NULL)
      *slash = '\0';
    if (mkdirat(at, path, 0777) != 0 && errno != EEXIST)
      return -1;
    if (slash != NULL)
      *slash = '/';
  }
  return open_directory(at, path);
}

/* Opens the directory that the path's last name is in, instead of the one that is open. */
static int enter(struct target *self, int at, char *path) {
  char *slash = strrchr(path, '/');
  const char *name = slash == NULL ? path : slash + 1;
  size_t length = strlen(name);
  if (length == 0 || length >= sizeof self->name) {
    errno = length > 0 ? ENAMETOOLONG : slash == NULL ? ENOENT : EISDIR;
    return -1;
  }
  memcpy(self->name, name, length + 1);
  if (slash != NULL)
    slash[slash == path ? 1 : 0] = '\0';
  int directory = slash == NULL ? open_directory(at, ".") : make_directories(at, path);
  if (directory < 0)
    return -1;
  target_release(self);
  self->directory = directory;
  return 0;
}

/* Of a symbolic link the text is read into `path`. */
static enum found look(struct target *self, char *path) {
  int fd = openat(self->directory, self->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT ? FOUND_END : FOUND_ERROR;
  enum found found = FOUND_ERROR;
  if (fstat(fd, &self->file) == 0) {
    self->exists = S_ISREG(self->file.st_mode);
    found = self->exists ? FOUND_END : FOUND_OTHER;
  }
  if (found == FOUND_OTHER && S_ISLNK(self->file.st_mode)) {
    ssize_t length = readlinkat(fd, "", path, PATH_MAX);
    if (length == PATH_MAX)
      errno = ENAMETOOLONG;
    found = length < 0 || length == PATH_MAX ? FOUND_ERROR : FOUND_LINK;
    if (found == FOUND_LINK)
      path[length] = '\0';
  }
  int look_errno = errno;
  close(fd);
  errno = look_errno;
  return found;
}

/* Returns FOUND_LINK when there are too many. */
static enum found follow(struct target *self, int at, char *path) {
  enum found found = FOUND_LINK;
  for (int links = 0; links <= LINKS_MOST && found == FOUND_LINK; links++) {
    if (enter(self, links == 0 ? at : self->directory, path) != 0)
      return FOUND_ERROR;
    found = look(self, path);
  }
  if (found == FOUND_LINK)
    errno = ELOOP;
  return found;
}

int target_find(struct target *self, int at, const char *path, struct error *error) {
  char rest[PATH_MAX];
  *self = (struct target){.directory = -1};
  size_t length = strlen(path);
  if (length >= sizeof rest)
    return error_set(error, "cannot write file (%s): %s", strerror(ENAMETOOLONG), path);
  memcpy(rest, path, length + 1);
  enum found found = follow(self, at, rest);
  /* By a rename a write-protected file could be replaced, which is not what protects it. */
  if (found == FOUND_END && self->exists &&
      faccessat(self->directory, self->name, W_OK, AT_EACCESS) != 0)
    found = FOUND_ERROR;
  if (found == FOUND_END)
    return 0;
  if (found == FOUND_OTHER)
    (void)error_set(error, "not a regular file but %s: %s", regular_file_kind(self->file.st_mode),
                    path);
  else
    (void)error_set(error, "cannot write file (%s): %s", strerror(errno), path);
  target_release(self);
  return -1;
}

void target_release(struct target *self) {
  if (self->directory >= 0)
    close(self->directory);
  self->directory = -1;
}
