#include "agent/files/access/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/atomic_file.h"
#include "agent/files/access/path.h"
#include "agent/files/access/target.h"
#include "base/base64.h"
#include "base/printable.h"
#include "base/write_all.h"

/* Decoded this much at a time, twice: first all of it is checked. The chunk is never in memory as a
   whole beside its text, which a forked child shares with the agent. */
#define PIECE 65536

/* The number of bytes, or -1 when it is not base64. */
static ssize_t decoded_length(const struct upload_chunk *chunk) {
  char piece[PIECE];
  struct base64_reader reader = base64_reader(chunk->base64, chunk->length);
  ssize_t length, total = 0;
  while ((length = base64_read(&reader, piece, sizeof piece)) > 0)
    total += length;
  return length == 0 ? total : -1;
}

static int write_decoded(const struct upload_chunk *chunk, int fd) {
  char piece[PIECE];
  struct base64_reader reader = base64_reader(chunk->base64, chunk->length);
  for (ssize_t length; (length = base64_read(&reader, piece, sizeof piece)) > 0;)
    if (write_all(fd, piece, (size_t)length) != 0)
      return -1;
  return write_all_flush(fd);
}

static int fail(const struct upload_chunk *chunk, struct error *error) {
  return path_fail(error, AT_FDCWD, chunk->path, "cannot write file (%s)", strerror(errno));
}

/* Nothing is truncated before it is known to be a file. It is read again where it moves to another
   device. */
static int open_file(const struct upload_chunk *chunk, const struct target *target,
                     struct stat *file, struct error *error) {
  static const int flags = O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  int fd = openat(target->directory, target->name, O_RDWR | flags, 0666);
  if (fd < 0 && errno == EACCES)
    fd = openat(target->directory, target->name, O_WRONLY | flags, 0666);
  if (fd < 0)
    return fail(chunk, error);
  if (fstat(fd, file) == 0 && S_ISREG(file->st_mode))
    return fd;
  (void)path_fail(error, AT_FDCWD, chunk->path, "is %s, not a regular file",
                  printable_file_kind(file->st_mode));
  close(fd);
  return -1;
}

static int add_chunk(const struct upload_chunk *chunk, ssize_t length, int fd, off_t size,
                     struct error *error) {
  off_t held = chunk->append ? size : 0;
  if (held + length > UPLOAD_FILE_MAX)
    return error_set(error, "the file would exceed the %d-byte limit", UPLOAD_FILE_MAX);
  if (held < size && ftruncate(fd, held) != 0)
    return fail(chunk, error);
  if (write_decoded(chunk, fd) == 0)
    return 0;
  int reason = errno;
  (void)!ftruncate(fd, held);
  errno = reason;
  return fail(chunk, error);
}

/* `*is_foreign`: it may not be written, so that no chunk before this one has made it. */
static int write_target(const struct upload_chunk *chunk, ssize_t length,
                        const struct target *target, bool *is_foreign, struct error *error) {
  struct stat file = {0};
  int fd = open_file(chunk, target, &file, error);
  *is_foreign = fd < 0;
  if (fd < 0)
    return -1;
  int result = add_chunk(chunk, length, fd, file.st_size, error);
  if (result == 0 && chunk->rename_to != NULL)
    result = atomic_file_move(fd, target, chunk->rename_to, error);
  close(fd);
  return result;
}

static int write_chunk(const struct upload_chunk *chunk, bool *is_foreign, struct error *error) {
  ssize_t length = decoded_length(chunk);
  if (length < 0)
    return error_set(error, "content is not base64");
  if (length > UPLOAD_CHUNK_MAX)
    return error_set(error, "a chunk exceeds the %d bytes one step may carry", UPLOAD_CHUNK_MAX);
  struct target target;
  *is_foreign = target_find(&target, AT_FDCWD, chunk->path, error) != 0;
  if (*is_foreign)
    return -1;
  int result = write_target(chunk, length, &target, is_foreign, error);
  target_release(&target);
  return result;
}

static bool is_same_file(const struct stat *file, const char *path) {
  struct stat other;
  return stat(path, &other) == 0 && other.st_dev == file->st_dev && other.st_ino == file->st_ino;
}

int upload_write(const struct upload_chunk *chunk, struct error *error) {
  bool is_foreign = false;
  if (write_chunk(chunk, &is_foreign, error) == 0)
    return 0;
  struct stat file;
  if (chunk->rename_to != NULL && !is_foreign && lstat(chunk->path, &file) == 0 &&
      S_ISREG(file.st_mode) && !is_same_file(&file, chunk->rename_to))
    (void)unlink(chunk->path);
  return -1;
}
