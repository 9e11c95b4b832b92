#ifndef INJECT_STAGED_FILE_H
#define INJECT_STAGED_FILE_H

#include <stdbool.h>

/*
 * A file or a directory that appears whole or not at all. It is made under a hidden name beside its
 * own, `.<name>.inject-<random>`, and takes its place by a rename: a reader sees the old one or the
 * whole new one, whatever happens. Several may do so at once; the last one wins.
 *
 *   staged_file_begin      the hidden file or directory, empty
 *     … fill it through `fd` (directories: by openat) …
 *   staged_file_commit     mode, fsync, rename, fsync of the directory
 *   staged_file_release    always; removes what was not committed
 *
 * What a killed process left is removed by the next one: while it is being made, its maker holds a
 * shared lock on it, which dies with the maker.
 *
 * Functions return 0, or -1 with errno.
 */
struct staged_file {
  int parent_fd;
  int fd; /* of a file open for reading and writing; of a directory */
  bool is_directory;
  bool pending;   /* there is something under the hidden name */
  bool exchanged; /* it is what was there before */
  char name[256];
  char hidden[256];
};

/* `parent` must exist. The name has no slash. */
int staged_file_begin(struct staged_file *self, const char *parent, const char *name,
                      bool is_directory);

/* Ends all writing to a file: from here on it may be executed. `fd` stays open, for reading. Writes
   it out to the disk. The mode is set as it is given, whatever the umask. */
int staged_file_seal(struct staged_file *self, unsigned mode);

int staged_file_commit(struct staged_file *self);

/* After a commit, before the release: puts back what was there. */
void staged_file_revert(struct staged_file *self);

void staged_file_release(struct staged_file *self);

/* Removes a file, or a directory with all that is in it. Others may do the same meanwhile, or have
   done it before. */
int staged_file_remove(int parent_fd, const char *name);

#endif
