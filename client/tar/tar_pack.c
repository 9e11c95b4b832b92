#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/printable.h"
#include "client/tar/tar.h"
#include "client/tar/tar_format.h"

/* The most nested directories: each keeps a descriptor open. */
#define DEPTH_MAX 256

struct pack {
  const struct tar_sink *sink;
  struct error *error;
  struct buffer name; /* "./a/b"; the NUL is not counted */
  unsigned depth;
};

static int pack_fail(struct pack *self, const char *what) {
  return error_set(self->error, "cannot read %s: %s", what, strerror(errno));
}

static int put_padding(struct pack *self, uint64_t size) {
  static const char zeros[TAR_BLOCK];
  const size_t rest = (size_t)(size % TAR_BLOCK);
  return rest == 0 ? 0 : self->sink->put(self->sink->owner, zeros, TAR_BLOCK - rest);
}

/* Writes an octal number, or one of base 256 if it has too many digits. */
static void set_number(char *field, size_t size, uint64_t number) {
  char digits[32];
  const int length =
      snprintf(digits, sizeof digits, "%0*llo", (int)size - 1, (unsigned long long)number);
  if ((size_t)length < size) {
    memcpy(field, digits, size);
    return;
  }
  for (size_t i = size; i > 0; i--, number >>= 8)
    field[i - 1] = (char)(number & 0xFF);
  field[0] = (char)0x80;
}

static int put_header(struct pack *self, const char *name, const char *link, char type,
                      const struct stat *status, uint64_t size) {
  struct tar_header header = {.type = type, .magic = "ustar", .version = {'0', '0'}};
  memcpy(header.name, name, strnlen(name, sizeof header.name));
  memcpy(header.link, link, strnlen(link, sizeof header.link));
  set_number(header.mode, sizeof header.mode, status->st_mode & 07777);
  set_number(header.uid, sizeof header.uid, 0);
  set_number(header.gid, sizeof header.gid, 0);
  set_number(header.size, sizeof header.size, size);
  set_number(header.mtime, sizeof header.mtime,
             status->st_mtime > 0 ? (uint64_t)status->st_mtime : 0);
  memset(header.checksum, ' ', sizeof header.checksum);
  unsigned sum = 0;
  for (size_t i = 0; i < sizeof header; i++)
    sum += ((const unsigned char *)&header)[i];
  (void)snprintf(header.checksum, sizeof header.checksum, "%06o", sum);
  return self->sink->put(self->sink->owner, (const char *)&header, sizeof header);
}

/* A text that is too long for a header becomes the content of an extra entry before it. */
static int put_long(struct pack *self, char type, const char *text) {
  const struct stat status = {.st_mode = 0644};
  const size_t length = strlen(text) + 1;
  if (length <= sizeof((struct tar_header *)NULL)->name)
    return 0;
  int result = put_header(self, "././@LongLink", "", type, &status, length);
  if (result == 0)
    result = self->sink->put(self->sink->owner, text, length);
  return result == 0 ? put_padding(self, length) : result;
}

static int put_entry(struct pack *self, char type, const char *link, const struct stat *status,
                     uint64_t size) {
  int result = put_long(self, TAR_GNU_LINK, link);
  if (result == 0)
    result = put_long(self, TAR_GNU_NAME, self->name.bytes);
  return result == 0 ? put_header(self, self->name.bytes, link, type, status, size) : result;
}

static int pack_content(struct pack *self, int fd, uint64_t size) {
  static const size_t most = 64 * 1024;
  struct buffer bytes = {0};
  char *space = buffer_space(&bytes, most);
  uint64_t left = size;
  int result = 0;
  while (left > 0 && result == 0) {
    ssize_t length = read(fd, space, left < most ? (size_t)left : most);
    if (length < 0 && errno == EINTR)
      continue;
    if (length <= 0)
      result = length < 0 ? pack_fail(self, self->name.bytes)
                          : error_set(self->error, "cannot read %s: it became shorter meanwhile",
                                      self->name.bytes);
    else
      result = self->sink->put(self->sink->owner, space, (size_t)length);
    left -= length > 0 ? (uint64_t)length : 0;
  }
  buffer_release(&bytes);
  return result == 0 ? put_padding(self, size) : result;
}

static int pack_file(struct pack *self, int parent, const char *name) {
  struct stat status;
  int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return pack_fail(self, self->name.bytes);
  int result = fstat(fd, &status) == 0 ? 0 : pack_fail(self, self->name.bytes);
  const uint64_t size = result == 0 && S_ISREG(status.st_mode) ? (uint64_t)status.st_size : 0;
  if (result == 0)
    result = put_entry(self, TAR_FILE, "", &status, size);
  if (result == 0)
    result = pack_content(self, fd, size);
  (void)close(fd);
  return result;
}

static int pack_link(struct pack *self, int parent, const char *name, const struct stat *status) {
  char target[PATH_MAX];
  ssize_t length = readlinkat(parent, name, target, sizeof target - 1);
  if (length < 0)
    return pack_fail(self, self->name.bytes);
  target[length] = '\0';
  return put_entry(self, TAR_SYMBOLIC_LINK, target, status, 0);
}

static int pack_directory(struct pack *self, int fd);

static int pack_entry(struct pack *self, int parent, const char *name) {
  struct stat status;
  if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT ? 0 : pack_fail(self, self->name.bytes);
  if (S_ISREG(status.st_mode))
    return pack_file(self, parent, name);
  if (S_ISLNK(status.st_mode))
    return pack_link(self, parent, name, &status);
  if (!S_ISDIR(status.st_mode)) {
    self->sink->leave_out(self->sink->owner, self->name.bytes, printable_file_kind(status.st_mode));
    return 0;
  }
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return pack_fail(self, self->name.bytes);
  buffer_add(&self->name, "/", 2);
  self->name.length--;
  return pack_directory(self, fd);
}

static int pack_entries(struct pack *self, DIR *directory) {
  const size_t length = self->name.length;
  int result = 0;
  while (result == 0) {
    errno = 0;
    const struct dirent *entry = readdir(directory);
    if (entry == NULL)
      return errno == 0 ? 0 : pack_fail(self, self->name.bytes);
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
      continue;
    buffer_add(&self->name, entry->d_name, strlen(entry->d_name) + 1);
    self->name.length--;
    result = pack_entry(self, dirfd(directory), entry->d_name);
    self->name.length = length;
    self->name.bytes[length] = '\0';
  }
  return result;
}

/* Closes the descriptor. The name ends with a slash. */
static int pack_directory(struct pack *self, int fd) {
  struct stat status;
  DIR *directory = NULL;
  int result = 0;
  if (self->depth == DEPTH_MAX)
    result = error_set(self->error, "more than %d nested directories", DEPTH_MAX);
  else if (fstat(fd, &status) != 0 || (directory = fdopendir(fd)) == NULL)
    result = pack_fail(self, self->name.bytes);
  if (directory == NULL) {
    (void)close(fd);
    return result;
  }
  self->depth++;
  result = put_entry(self, TAR_DIRECTORY, "", &status, 0);
  if (result == 0)
    result = pack_entries(self, directory);
  self->depth--;
  (void)closedir(directory);
  return result;
}

int tar_pack(const char *directory, const struct tar_sink *sink, struct error *error) {
  static const char end[2 * TAR_BLOCK];
  struct pack self = {.sink = sink, .error = error};
  buffer_add(&self.name, "./", 3);
  self.name.length--;
  int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int result = fd >= 0 ? pack_directory(&self, fd) : pack_fail(&self, directory);
  buffer_release(&self.name);
  return result == 0 ? sink->put(sink->owner, end, sizeof end) : result;
}
