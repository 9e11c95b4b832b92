#pragma once

#include <stdbool.h>

#include "base/error.h"

/* Makes paths absolute, compares them, and names them in errors. The file kinds and the tools call
   it. It works on the text of paths alone, without the file system, except for the name of the
   current directory. */

/* Returns a path for output, to be freed: with the current directory in front of a relative path,
   and without "." components, repeated slashes and trailing slashes. ".." is kept, because behind a
   symbolic link it leads elsewhere. NULL with an error if the current directory was removed. */
char *path_full(const char *path, struct error *error);

/* Sets the error "<reason>: <full path>" and returns -1. The path is unchanged if it begins at
   another directory `at` than AT_FDCWD. Part of the middle is omitted if the text is too long. */
int path_fail(struct error *error, int at, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Whether the path is "~" or begins with "~/", as a shell writes the home directory. */
bool path_is_home(const char *path);

/* Returns a path for comparing names that a sender wrote, to be freed; not for opening, because
   each ".." removes a component. A relative path begins at the absolute `directory`. */
char *path_lexical(const char *directory, const char *path);

/* Returns the part of a path behind the directory and its "/", "" if both are the same, or NULL if
   the path is not below the directory. Both are lexical paths. */
const char *path_below(const char *path, const char *directory);
