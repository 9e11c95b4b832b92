#ifndef AGENT_FILES_ACCESS_FULL_PATH_H
#define AGENT_FILES_ACCESS_FULL_PATH_H

#include "base/error.h"

/*
 * Makes a path absolute for output: puts the current directory in front of a relative one and
 * removes "." components, repeated slashes and slashes at the end. ".." stays, because after a
 * symbolic link it does not lead back. The file system is not asked. The caller frees the result;
 * NULL with an error when the current directory was removed.
 */
char *full_path_new(const char *path, struct error *error);

/* Sets an error about a path: the reason, ": " and the full path, or the path as it is where it is
   absolute, or begins at another directory `at` than AT_FDCWD. Leaves out part of the middle where
   it is too long. Returns -1. */
int full_path_fail(struct error *error, int at, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The last component of a full path, a pointer into it; "" for "/". */
const char *full_path_name(const char *full_path);

#endif
