#ifndef AGENT_FILES_ACCESS_TARGET_H
#define AGENT_FILES_ACCESS_TARGET_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

/*
 * Where a path leads to, for who wants to write there: an open directory and a name in it that is
 * no symbolic link. Once it is found, only the two are used, whatever becomes of the path.
 *
 *   if (target_find(&target, AT_FDCWD, path, &error) == 0)
 *     … openat(target.directory, target.name …) …, target_release(&target)
 */
struct target {
  int directory; /* O_PATH */
  char name[256];
  bool exists;
  struct stat file; /* of what exists, a regular file that may be written */
};

/*
 * A relative path begins at the directory `at`, or AT_FDCWD. Makes directories that are missing, as
 * mkdir(1) -p does. Follows symbolic links to files, those that lead to nothing too, where the
 * kernel would; not to directories that are missing, nor one of /proc to an open file that has no
 * name. Refuses what is not a regular file or is write-protected. After an error nothing is to be
 * released; made directories stay.
 */
int target_find(struct target *self, int at, const char *path, struct error *error);

void target_release(struct target *self);

#endif
