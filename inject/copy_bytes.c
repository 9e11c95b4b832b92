#include "inject/copy_bytes.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_SIZE 65536

/* linux/fs.h, which musl's headers do not come with. */
#ifndef FICLONE
#define FICLONE _IOW(0x94, 9, int)
#endif

static int copy_through_buffer(int from, int to, off_t at, off_t size) {
  char buffer[BUFFER_SIZE];
  while (at < size) {
    size_t wanted = size - at < BUFFER_SIZE ? (size_t)(size - at) : BUFFER_SIZE;
    ssize_t length = pread(from, buffer, wanted, at);
    if (length < 0 && errno == EINTR)
      continue;
    if (length == 0)
      errno = EIO; /* the file became shorter */
    if (length <= 0)
      return -1;
    for (ssize_t done = 0; done < length;) {
      ssize_t written = pwrite(to, buffer + done, (size_t)(length - done), at + done);
      if (written < 0 && errno != EINTR)
        return -1;
      done += written > 0 ? written : 0;
    }
    at += length;
  }
  return 0;
}

/* Copies by the kernel as far as it can (not between some file systems, not in old kernels).
   Returns the offset reached; the rest, and the report of errors, is left to copy_through_buffer.
 */
static off_t copy_in_kernel(int from, int to, off_t size) {
  off_t at = 0;
  while (at < size) {
    off_t from_at = at;
    off_t to_at = at;
    ssize_t length = copy_file_range(from, &from_at, to, &to_at, (size_t)(size - at), 0);
    if (length < 0 && errno == EINTR)
      continue;
    if (length <= 0)
      break;
    at += length;
  }
  return at;
}

int copy_bytes(int from, int to, off_t size) {
  struct stat copied;
  if (ioctl(to, FICLONE, from) == 0 && fstat(to, &copied) == 0 && copied.st_size == size)
    return 0;
  return copy_through_buffer(from, to, copy_in_kernel(from, to, size), size);
}

static ssize_t read_all(int fd, char *buffer, size_t size, off_t at) {
  size_t done = 0;
  while (done < size) {
    ssize_t length = pread(fd, buffer + done, size - done, at + (off_t)done);
    if (length < 0 && errno == EINTR)
      continue;
    if (length < 0)
      return -1;
    if (length == 0)
      break;
    done += (size_t)length;
  }
  return (ssize_t)done;
}

int copy_bytes_same(int left, int right, off_t size) {
  char left_buffer[BUFFER_SIZE];
  char right_buffer[BUFFER_SIZE];
  /* One byte more than there should be, so that a longer file is not the same. */
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
