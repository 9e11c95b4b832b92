#include "agent/files/access/file_overwrite.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/regular_file.h"
#include "base/buffer.h"
#include "base/write_all.h"

/* Returns 0, or -1 with errno; `*done` is then how much was written. */
static int write_at(int fd, const char *bytes, size_t length, off_t offset, size_t *done) {
  for (*done = 0; *done < length;) {
    ssize_t written = pwrite(fd, bytes + *done, length - *done, offset + (off_t)*done);
    if (written < 0 && errno != EINTR)
      return -1;
    *done += written > 0 ? (size_t)written : 0;
  }
  return 0;
}

/* Writes what lies beyond the old end. After an error the file has its old length again. */
static int add_tail(int fd, const char *bytes, size_t length, off_t size, bool *is_torn) {
  size_t done;
  if (write_at(fd, bytes, length, size, &done) == 0 && write_all_flush(fd) == 0)
    return 0;
  int error = errno;
  *is_torn = ftruncate(fd, size) != 0;
  errno = error;
  return -1;
}

/* Writes the first `head` bytes, which the old content has, too, and cuts the rest of that off.
   After an error they are the old ones again: as many as were overwritten, because the others may
   lie in a hole, for which there may be no space either. */
static int replace_head(int fd, const char *bytes, size_t length, size_t head, off_t size,
                        bool *is_torn) {
  struct buffer old = {0};
  bool is_saved =
      head == 0 || (regular_file_fill(fd, 0, head, head, &old) == 0 && old.length == head);
  size_t done, restored;
  int result = -1;
  if (write_at(fd, bytes, head, 0, &done) == 0 && write_all_flush(fd) == 0 &&
      ((off_t)length >= size || ftruncate(fd, (off_t)length) == 0))
    result = 0;
  if (result != 0) {
    int error = errno;
    *is_torn = (done > 0 && !is_saved) || write_at(fd, old.bytes, done, 0, &restored) != 0 ||
               write_all_flush(fd) != 0 || ftruncate(fd, size) != 0;
    errno = error;
  }
  buffer_release(&old);
  return result;
}

int file_overwrite(int fd, const char *bytes, size_t length, bool *is_torn) {
  struct stat file;
  *is_torn = false;
  if (fstat(fd, &file) != 0)
    return -1;
  size_t head = (off_t)length < file.st_size ? length : (size_t)file.st_size;
  if (length > head && add_tail(fd, bytes + head, length - head, file.st_size, is_torn) != 0)
    return -1;
  if (replace_head(fd, bytes, length, head, file.st_size, is_torn) != 0)
    return -1;
  if ((file.st_mode & (S_ISUID | S_ISGID)) != 0) /* the kernel leaves them if CAP_FSETID is there */
    (void)fchmod(fd, file.st_mode & ~(mode_t)(S_IFMT | S_ISUID | S_ISGID));
  return 0;
}
