#ifndef AGENT_FILES_ACCESS_TARGET_H
#define AGENT_FILES_ACCESS_TARGET_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

/*
 * Resolves a path that is to be written: to an open directory and a name in it that is no symbolic
 * link. From then on only these two are used, whatever becomes of the path.
 *
 *   if (target_find(&target, AT_FDCWD, path, &error) == 0)
 *     … openat(target.directory, target.name …) …, target_release(&target)
 */
struct target {
  int directory; /* O_PATH */
  char name[256];
  bool exists;
  struct stat file; /* when it exists: a regular file that may be written */
};

/* A relative path begins at the directory `at`, or AT_FDCWD. Creates missing directories, as
   mkdir(1) -p does. Follows symbolic links to files, dangling ones too, where the kernel would; not
   to missing directories, nor those of /proc to an open file that has no name. Rejects what is not
   a regular file or is write-protected. After an error nothing is to be released; directories that
   were created stay. */
int target_find(struct target *self, int at, const char *path, struct error *error);

void target_release(struct target *self);

#endif
