#ifndef AGENT_FILES_IGNORE_IGNORE_FILE_H
#define AGENT_FILES_IGNORE_IGNORE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/*
 * Finds and reads ignore files, and the files in git's directories that name them.
 * A relative path begins at the directory `at`.
 */
enum ignore_file { IGNORE_FILE_NONE, IGNORE_FILE_READ, IGNORE_FILE_UNREADABLE };

/* Reads a regular file of at most `max` bytes into an empty buffer; a longer one is unreadable. */
enum ignore_file ignore_file_read(int at, const char *path, size_t max, struct buffer *text);

/* Opens the directory that has info/exclude: the entry `.git` of a directory, or where that is a file,
   what it names. -1: there is none. `*is_repository`: there is a `.git`. */
int ignore_file_git_directory(int directory, bool *is_repository);

/* The path of git's global ignore file, whether it exists or not; to be freed. NULL where there is
   none. */
char *ignore_file_global(const char *home, const char *config);

#endif
