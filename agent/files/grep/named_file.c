#include "agent/files/grep/named_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/path.h"
#include "agent/files/grep/memscan.h"
#include "agent/files/grep/search.h"
#include "base/utf16.h"

static int fail(struct error *error, const char *path, int reason) {
  return path_fail(error, AT_FDCWD, path, "cannot read file (%s)", strerror(reason));
}

/* What a mapping has lost cannot be read any more, and there is no way back into the search. */
static void end_at_bus_error(int signal) {
  static const char text[] = "cannot read file (it became shorter meanwhile)\n";
  (void)signal;
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(1);
}

/* The file lies in a mapping without a file that is longer: so there is something behind it. */
static int map(struct named_file *self, int fd, size_t size, const char *path,
               struct error *error) {
  self->mapped = size + MEMSCAN_SLACK;
  void *mapping =
      mmap(NULL, self->mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return fail(error, path, errno);
  if (mmap(mapping, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
    int reason = errno;
    (void)munmap(mapping, self->mapped);
    return fail(error, path, reason);
  }
  (void)madvise(mapping, size, MADV_SEQUENTIAL);
  const struct sigaction action = {.sa_handler = end_at_bus_error};
  (void)sigaction(SIGBUS, &action, NULL);
  self->mapping = mapping;
  self->text = mapping;
  self->length = size;
  return 0;
}

/* Of a file of /proc the size is not known, and another may grow. */
static int copy(struct named_file *self, int fd, const char *path, struct error *error) {
  struct buffer *to = &self->copy;
  for (;;) {
    ssize_t n = read(fd, buffer_space(to, 65536), 65536);
    if (n == 0)
      break;
    if (n < 0 && errno != EINTR)
      return fail(error, path, errno);
    to->length += n > 0 ? (size_t)n : 0;
    if (to->length > SEARCH_COPY_MAX)
      return path_fail(error, AT_FDCWD, path, "cannot read file (it has no end)");
  }
  return 0;
}

/* Replaces the text by a copy in UTF-8. */
static int decode(struct named_file *self, bool is_big_endian, const char *path,
                  struct error *error) {
  if (self->length > SEARCH_COPY_MAX)
    return path_fail(error, AT_FDCWD, path, "UTF-16 file exceeds 64 MiB limit");
  size_t length = self->length;
  struct buffer decoded = {0};
  char *bytes = buffer_space(&decoded, UTF16_DECODED_MAX(length) + MEMSCAN_SLACK);
  memcpy(bytes, self->text, length);
  decoded.length = utf16_decode(bytes, length, is_big_endian);
  named_file_release(self);
  self->copy = decoded;
  self->text = decoded.bytes;
  self->length = decoded.length;
  return 0;
}

static int read_text(struct named_file *self, int fd, const char *path, struct error *error) {
  struct stat file;
  if (fstat(fd, &file) != 0)
    return fail(error, path, errno);
  if (file.st_size > SEARCH_FILE_MAX) {
    if (map(self, fd, (size_t)file.st_size, path, error) != 0)
      return -1;
  } else {
    if (copy(self, fd, path, error) != 0)
      return -1;
    (void)buffer_space(&self->copy, MEMSCAN_SLACK);
    self->text = self->copy.bytes;
    self->length = self->copy.length;
  }
  bool is_big_endian;
  if (!utf16_is_marked(self->text, self->length, &is_big_endian))
    return 0;
  return decode(self, is_big_endian, path, error);
}

int named_file_read(struct named_file *self, int fd, const char *path, struct error *error) {
  *self = (struct named_file){.length = 0};
  int result = read_text(self, fd, path, error);
  if (result != 0)
    named_file_release(self);
  return result;
}

void named_file_release(struct named_file *self) {
  if (self->mapping != NULL)
    (void)munmap(self->mapping, self->mapped);
  buffer_release(&self->copy);
  *self = (struct named_file){.length = 0};
}
