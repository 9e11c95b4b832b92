#ifndef AGENT_FILES_REGULAR_FILE_H
#define AGENT_FILES_REGULAR_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "wire/error.h"

/*
 * Reading a file that somebody else named: it may be a directory, a FIFO without a writer, a
 * terminal, or grow while it is read. The path is resolved once; what is refused was not opened, so
 * that a waiting writer of a FIFO goes on waiting and a device is not set going.
 *
 *   int fd = regular_file_open(AT_FDCWD, path, &error);
 *   if (fd >= 0 && regular_file_read(fd, path, &content, &length, &error) == 0) …
 *   free(content), close(fd)
 *
 * Errors name the reason first and the path last, where a long one is cut.
 */

/* The most that is read, in bytes. */
#define REGULAR_FILE_MOST 1048576

/* Opens for reading; a relative path begins at the directory `at`, or AT_FDCWD. Symbolic links are
   followed. Returns a descriptor that is the caller's, at its beginning, close-on-exec and
   non-blocking (files of /proc may have nothing to read yet), or -1. */
int regular_file_open(int at, const char *path, struct error *error);

/* Reads from where the descriptor stands to the end, and moves it there. `*content` is the caller's
   to free. What counts is what was read, not what the size was said to be. `path` is for the error,
   after which `*content` is NULL. */
int regular_file_read(int fd, const char *path, char **content, size_t *length,
                      struct error *error);

/* What a mode of stat(2) stands for: "a directory", "a FIFO", … */
const char *regular_file_kind(mode_t mode);

#endif
