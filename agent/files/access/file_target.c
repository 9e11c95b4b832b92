#include "agent/files/access/file_target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/files/access/path.h"
#include "base/descriptor.h"
#include "base/printable.h"

/* The kernel's own limit (MAXSYMLINKS). */
#define LINKS_MAX 40

/* PROC_SUPER_MAGIC of linux/magic.h, which musl does not have. */
#define PROC_MAGIC 0x9fa0

void file_target_release(struct file_target *self) {
  descriptor_close(self->directory);
  self->directory = -1;
}

static int open_directory(int at, const char *path) {
  return openat(at, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Opens an entry of `fd` as a directory, which it creates if `creates` is set, and closes `fd`. */
static int descend(int fd, const char *from, size_t length, bool creates) {
  char name[NAME_MAX + 1];
  int below = -1;
  errno = ENAMETOOLONG;
  if (length < sizeof name) {
    memcpy(name, from, length);
    name[length] = '\0';
    below = open_directory(fd, name);
    if (below < 0 && errno == ENOENT && creates &&
        (mkdirat(fd, name, 0777) == 0 || errno == EEXIST))
      below = open_directory(fd, name);
  }
  descriptor_close(fd);
  return below;
}

/* Opens the directory of the path's last component, and sets the name. */
static int enter(struct file_target *self, int at, const char *path, bool creates) {
  const char *slash = strrchr(path, '/');
  const char *name = slash == NULL ? path : slash + 1;
  size_t length = strlen(name);
  if (length == 0 || length >= sizeof self->name) {
    errno = length > 0 ? ENAMETOOLONG : slash == NULL ? ENOENT : EISDIR;
    return -1;
  }
  memcpy(self->name, name, length + 1);
  int fd = open_directory(at, *path == '/' ? "/" : ".");
  while (fd >= 0 && path < name) {
    size_t part = strcspn(path, "/");
    if (part > 0)
      fd = descend(fd, path, part, creates);
    path += part + 1;
  }
  if (fd < 0)
    return -1;
  file_target_release(self);
  self->directory = fd;
  return 0;
}

/* Symbolic links in /proc lead to open files. Their text may be an old name of the file, or no path
   at all, so it has to be checked. */
static bool is_text_valid(const struct file_target *self, int fd, const char *text) {
  struct statfs where;
  struct stat file, named;
  if (fstatfs(fd, &where) != 0 || where.f_type != PROC_MAGIC ||
      fstatat(self->directory, self->name, &file, 0) != 0)
    return true;
  return fstatat(self->directory, text, &named, 0) == 0 && descriptor_same_file(&file, &named);
}

static ssize_t read_link(const struct file_target *self, int fd, char text[PATH_MAX]) {
  ssize_t length = readlinkat(fd, "", text, PATH_MAX);
  if (length >= 0 && length < PATH_MAX) {
    text[length] = '\0';
    if (is_text_valid(self, fd, text))
      return length;
  }
  errno = length < 0 ? errno : length == PATH_MAX ? ENAMETOOLONG : EOPNOTSUPP;
  return -1;
}

/* Looks up the name. Returns the length of a symbolic link's text, or 0 for anything else. */
static ssize_t examine(struct file_target *self, char text[PATH_MAX]) {
  int fd = openat(self->directory, self->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  self->exists = fd >= 0;
  if (fd < 0)
    return errno == ENOENT ? 0 : -1;
  ssize_t length = fstat(fd, &self->file) == 0 ? 0 : -1;
  if (length == 0 && S_ISLNK(self->file.st_mode))
    length = read_link(self, fd, text);
  descriptor_close(fd);
  return length;
}

static int follow(struct file_target *self, int at, const char *path, bool creates) {
  char text[PATH_MAX];
  for (int links = 0; links <= LINKS_MAX; links++) {
    if (enter(self, at, path, creates) != 0)
      return -1;
    ssize_t length = examine(self, text);
    if (length <= 0)
      return (int)length;
    at = self->directory;
    path = text;
  }
  errno = ELOOP;
  return -1;
}

/* Asks the kernel, before anything is created, whether it would follow the path, because it has
   more rules for links (fs.protected_symlinks in /tmp). */
static int ask_kernel(struct file_target *self, int at, const char *path) {
  int fd = openat(at, path, O_PATH | O_CLOEXEC);
  self->exists = fd >= 0;
  if (fd < 0)
    return errno == ENOENT ? 0 : -1;
  int result = fstat(fd, &self->file);
  close(fd);
  return result;
}

static bool is_other_kind(const struct file_target *self) {
  return self->exists && !S_ISREG(self->file.st_mode);
}

int file_target_find(struct file_target *self, int at, const char *path, bool creates,
                     struct error *error) {
  *self = (struct file_target){.directory = -1};
  int result = ask_kernel(self, at, path);
  if (result == 0 && !is_other_kind(self))
    result = follow(self, at, path, creates);
  /* A rename would replace a write-protected file. No flags, because some containers do not allow
     faccessat2. */
  if (result == 0 && self->exists && !is_other_kind(self))
    result = faccessat(self->directory, self->name, W_OK, 0);
  if (result == 0 && !is_other_kind(self))
    return 0;
  if (result == 0)
    (void)path_fail(error, at, path, "is %s, not a regular file",
                    printable_file_kind(self->file.st_mode));
  else
    (void)path_fail(error, at, path, "cannot write file (%s)", strerror(errno));
  file_target_release(self);
  return -1;
}
