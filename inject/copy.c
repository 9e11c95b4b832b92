#include "inject/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"

#define BUFFER_SIZE 65536

/* Reads fewer bytes than `size` only at the end of the file. */
static ssize_t read_all(int fd, char *buffer, size_t size, off_t at) {
  size_t done = 0;
  for (ssize_t length = 1; done < size && length != 0; done += length > 0 ? (size_t)length : 0) {
    length = pread(fd, buffer + done, size - done, at + (off_t)done);
    if (length < 0 && errno != EINTR)
      return -1;
  }
  return (ssize_t)done;
}

int copy_bytes(int from, int to, off_t size) {
  char buffer[BUFFER_SIZE];
  for (off_t done = 0; done < size;) {
    off_t left = size - done;
    ssize_t length = read(from, buffer, left < BUFFER_SIZE ? (size_t)left : BUFFER_SIZE);
    if (length == 0)
      errno = EIO; /* the file became shorter */
    if (length <= 0 && errno != EINTR)
      return -1;
    for (ssize_t at = 0, written; at<length; at += written> 0 ? written : 0)
      if ((written = pwrite(to, buffer + at, (size_t)(length - at), done + at)) < 0 &&
          errno != EINTR)
        return -1;
    done += length > 0 ? length : 0;
  }
  return 0;
}

int copy_bytes_same(int left, int right, off_t size) {
  char left_buffer[BUFFER_SIZE], right_buffer[BUFFER_SIZE];
  /* Reads beyond `size`, so that a longer file is not the same. */
  for (off_t at = 0; at <= size;) {
    ssize_t left_length = read_all(left, left_buffer, BUFFER_SIZE, at);
    ssize_t right_length = read_all(right, right_buffer, BUFFER_SIZE, at);
    if (left_length < 0 || right_length < 0)
      return -1;
    if (left_length != right_length || at + left_length > size ||
        memcmp(left_buffer, right_buffer, (size_t)left_length) != 0)
      return 0;
    if (left_length < BUFFER_SIZE)
      return at + left_length == size;
    at += left_length;
  }
  return 0;
}

#define MODE_BITS 07777

/* An entry, and the directories that it is copied from and to. */
struct copied_entry {
  int from, to;
  const char *name;
  struct stat stat;
};

static int copy_link(const struct copied_entry *entry) {
  char target[PATH_MAX];
  ssize_t length = readlinkat(entry->from, entry->name, target, sizeof target - 1);
  if (length < 0)
    return -1;
  target[length] = '\0';
  return symlinkat(target, entry->to, entry->name);
}

static int copy_content(const struct copied_entry *entry, char *where, size_t where_size) {
  bool is_directory = S_ISDIR(entry->stat.st_mode);
  int how = O_NOFOLLOW | O_CLOEXEC | (is_directory ? O_DIRECTORY : 0);
  if (is_directory && mkdirat(entry->to, entry->name, 0700) != 0)
    return -1;
  int from = openat(entry->from, entry->name, O_RDONLY | how);
  if (from < 0)
    return -1;
  int to = openat(entry->to, entry->name,
                  how | (is_directory ? O_RDONLY : O_WRONLY | O_CREAT | O_EXCL), 0600);
  int result = to < 0         ? -1
               : is_directory ? copy_tree(from, to, where, where_size)
                              : copy_bytes(from, to, entry->stat.st_size);
  /* Python compares times with those in its compiled files. The mode comes last, because it may
     forbid writing. */
  const struct timespec times[] = {entry->stat.st_atim, entry->stat.st_mtim};
  if (result == 0 && (futimens(to, times) != 0 ||
                      fchmod(to, entry->stat.st_mode & MODE_BITS) != 0 || fsync(to) != 0))
    result = -1;
  descriptor_close(to);
  descriptor_close(from);
  return result;
}

/* Appends the name to `where` and removes it again after a success. */
static int copy_entry(struct copied_entry *entry, char *where, size_t where_size) {
  size_t length = strlen(where);
  (void)snprintf(where + length, where_size - length, "/%s", entry->name);
  int result = fstatat(entry->from, entry->name, &entry->stat, AT_SYMLINK_NOFOLLOW);
  if (result == 0 && S_ISLNK(entry->stat.st_mode))
    result = copy_link(entry);
  else if (result == 0 && (S_ISREG(entry->stat.st_mode) || S_ISDIR(entry->stat.st_mode)))
    result = copy_content(entry, where, where_size);
  if (result == 0)
    where[length] = '\0';
  return result;
}

/* Returns NULL with errno 0 at the end, or NULL with another errno. */
static const struct dirent *next_entry(DIR *directory) {
  const struct dirent *entry;
  do {
    errno = 0;
    entry = readdir(directory);
  } while (entry != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
  return entry;
}

static int close_directory(DIR *directory, int result) {
  int error = errno;
  closedir(directory);
  errno = error;
  return result;
}

int copy_tree(int from, int to, char *where, size_t where_size) {
  int listing = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = listing < 0 ? NULL : fdopendir(listing);
  if (directory == NULL)
    return -1;
  int result = 0;
  for (const struct dirent *found; result == 0 && (found = next_entry(directory)) != NULL;) {
    struct copied_entry entry = {.from = from, .to = to, .name = found->d_name};
    result = copy_entry(&entry, where, where_size);
  }
  return close_directory(directory, result == 0 && errno == 0 ? 0 : -1);
}

int copy_tree_remove(int directory, const char *name) {
  if (unlinkat(directory, name, 0) == 0 || errno == ENOENT)
    return 0;
  if (errno != EISDIR && errno != EPERM)
    return -1;
  int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT ? 0 : -1;
  (void)fchmod(fd, 0700); /* the mode may forbid even the owner to empty the directory */
  DIR *opened = fdopendir(fd);
  if (opened == NULL) {
    descriptor_close(fd);
    return -1;
  }
  int result = 0;
  for (const struct dirent *entry; result == 0 && (entry = next_entry(opened)) != NULL;)
    result = copy_tree_remove(dirfd(opened), entry->d_name);
  if (close_directory(opened, result) != 0)
    return -1;
  return unlinkat(directory, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -1;
}
