#ifndef AGENT_FILES_ACCESS_FILE_TARGET_H
#define AGENT_FILES_ACCESS_FILE_TARGET_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

/*
 * Finds the file that is to be written under a path: an open directory and a name in it that is no
 * symbolic link. Only these two are used from then on, whatever becomes of the path.
 */
struct file_target {
  int directory; /* O_PATH; -1: released */
  char name[256];
  bool exists;
  struct stat file; /* when it exists: a regular file that may be written */
};

/* A relative path begins at the directory `at`, or AT_FDCWD. With `creates`, makes missing
   directories, as mkdir(1) -p does. Follows symbolic links to files, dangling ones too, where the
   kernel would; not to missing directories, nor those of /proc to an open file that has no name.
   Rejects what is not a regular file or is write-protected. After an error nothing is to be
   released; directories that were created stay. */
int file_target_find(struct file_target *self, int at, const char *path, bool creates,
                     struct error *error);
void file_target_release(struct file_target *self);

#endif
