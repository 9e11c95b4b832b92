#include "agent/files/access/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/files/access/path.h"
#include "base/descriptor.h"
#include "base/printable.h"

static const int reading = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

DIR *directory_open_below(int parent, const char *name) {
  int fd = openat(parent, name, reading | O_NOFOLLOW);
  if (fd < 0)
    return NULL;
  DIR *directory = fdopendir(fd);
  if (directory == NULL)
    descriptor_close(fd);
  return directory;
}

DIR *directory_open(const char *path, struct error *error) {
  int fd = open(path, reading);
  DIR *directory = fd >= 0 ? directory_open_below(fd, ".") : NULL;
  int reason = errno;
  struct stat file;
  descriptor_close(fd);
  if (directory != NULL)
    return directory;
  /* ENOTDIR: either this is no directory, or a component of the path is none. */
  if (reason == ENOTDIR && stat(path, &file) == 0)
    (void)path_fail(error, AT_FDCWD, path, "is %s, not a directory",
                    printable_file_kind(file.st_mode));
  else if (reason == ENOENT || reason == ENOTDIR)
    (void)path_fail(error, AT_FDCWD, path, "directory not found");
  else
    (void)path_fail(error, AT_FDCWD, path, "cannot read directory (%s)", strerror(reason));
  return NULL;
}

int directory_type(int parent, const char *name, unsigned char type) {
  if (type != DT_UNKNOWN)
    return type;
  struct stat file;
  if (fstatat(parent, name, &file, AT_SYMLINK_NOFOLLOW) == 0)
    return (int)IFTODT(file.st_mode);
  return errno == ENOENT ? -1 : DT_UNKNOWN;
}

bool directory_next(DIR *self, struct directory_entry *entry) {
  for (;;) {
    errno = 0;
    const struct dirent *found = readdir(self);
    if (found == NULL)
      return false;
    const char *name = found->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strlen(name) > DIRECTORY_NAME_MAX)
      continue;
    int type = directory_type(dirfd(self), name, found->d_type);
    if (type < 0)
      continue;
    *entry = (struct directory_entry){.name = name, .type = (unsigned char)type};
    return true;
  }
}

bool directory_is_one(int parent, const struct directory_entry *entry) {
  struct stat file;
  return entry->type == DT_DIR ||
         (entry->type == DT_LNK && fstatat(parent, entry->name, &file, 0) == 0 &&
          S_ISDIR(file.st_mode));
}
