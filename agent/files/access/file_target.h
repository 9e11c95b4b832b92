#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

/* Finds the file to write under a path, for atomic_file.c: an open directory and a name in it that
   is no symbolic link. The path is not used again, so it does not matter if it changes. The hard
   part is to follow links as the kernel would, except those that an attacker could use. */
struct file_target {
  int directory; /* O_PATH; -1: released */
  char name[256];
  bool exists;
  struct stat file; /* when it exists: a regular file that may be written */
};

/* A relative path begins at the directory `at`, or AT_FDCWD. With `creates`, creates missing
   directories, which stay after an error. Follows symbolic links to files, even dangling ones, if
   the kernel would follow them; but not links to missing directories, nor those of /proc to open
   files without a name. Rejects anything but a regular file that may be written. After an error
   there is nothing to release. */
int file_target_find(struct file_target *self, int at, const char *path, bool creates,
                     struct error *error);
void file_target_release(struct file_target *self);
