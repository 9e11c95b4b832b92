#include "base/write_all.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

int write_all(int fd, const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t written = write(fd, bytes, length);
    if (written < 0 && errno != EINTR)
      return -1;
    if (written > 0) {
      bytes += written;
      length -= (size_t)written;
    }
  }
  return 0;
}

/* The file system learns of each descriptor that is closed, not only of the last one. */
int write_all_flush(int fd) {
  int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  return copy >= 0 && (close(copy) == 0 || errno == EINTR) ? 0 : -1;
}
