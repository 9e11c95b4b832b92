#ifndef AGENT_FILES_ACCESS_PATH_H
#define AGENT_FILES_ACCESS_PATH_H

#include <stdbool.h>

#include "base/error.h"

/* Makes paths absolute by their texts: the file system is not asked. */

/* For output: puts the current directory in front of a relative path and removes "." components,
   repeated slashes and slashes at the end. ".." stays, because after a symbolic link it does not
   lead back. The caller frees the result; NULL with an error when the current directory was
   removed. */
char *path_full(const char *path, struct error *error);

/* Sets an error about a path: the reason, ": " and the full path, or the path as it is where it is
   absolute, or begins at another directory `at` than AT_FDCWD. Leaves out part of the middle where
   it is too long. Returns -1. */
int path_fail(struct error *error, int at, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Whether the path is "~" or begins with "~/", which a shell would take for the home directory. */
bool path_is_home(const char *path);

/* For comparing names that a sender wrote; what is opened is the path itself, since ".." behind a
   symbolic link leads elsewhere. A relative path begins at `directory`, which is absolute; ".."
   takes away what is in front of it. The caller frees the result. */
char *path_lexical(const char *directory, const char *path);

/* What follows the directory and its "/" in a path, a pointer into it; "" where they are the same,
   NULL where the path is not below. Both are lexical paths. */
const char *path_below(const char *path, const char *directory);

#endif
