#pragma once

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Helpers for code that opens files by descriptor. They allocate nothing and cannot fail.
 */

/* Closes a descriptor unless it is negative. Keeps errno. */
static inline void descriptor_close(int fd) {
  int error = errno;
  if (fd >= 0)
    (void)close(fd);
  errno = error;
}

/* Whether both are the same file. */
static inline bool descriptor_same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}
