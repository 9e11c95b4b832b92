#ifndef AGENT_FILES_ACCESS_TEMP_FILE_H
#define AGENT_FILES_ACCESS_TEMP_FILE_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * A file that is to take another one's place: written under a hidden name beside it,
 * `.write-<user id>-<hash of its name>`, and renamed.
 *
 *   temp_file_begin      the hidden file, empty; waits while another process is at the same one
 *     … write to `fd` …
 *   temp_file_commit     fsync, rename, fsync of the directory
 *   temp_file_release    always; removes what was not committed
 *
 * The hidden name is always the same for one name and user, so that the next writer finds what a
 * killed one left without a search through the directory, which may have a million entries. While a
 * draft is made, its maker holds a lock on it, which dies with the maker. A draft that is found is
 * removed and never written to: it may be a link to something else, or have another owner's rights.
 * On file systems without locks it is taken for a dead one's; of two who write one file there at
 * the same time, one may fail.
 *
 * From the beginning to the release SIGTERM is put off, so that only SIGKILL leaves one behind; not
 * while another process is waited for, which takes as long as that takes: if it was stopped, or its
 * host is gone without the lock (NFS), until somebody ends this one.
 *
 * Functions return 0, or -1 with errno; EWOULDBLOCK: another process came in between.
 */
struct temp_file {
  int directory; /* the caller's */
  int fd;        /* open for writing; -1: there is no draft */
  char hidden[64];
  bool begun;
  sigset_t mask; /* the caller's, to be restored */
};

/* For the file `name` in the directory. The mode is subject to the umask. */
int temp_file_begin(struct temp_file *self, int directory, const char *name, mode_t mode);

/* Under this name, in the same directory. A program can be executed when this has returned. */
int temp_file_commit(struct temp_file *self, const char *name);

/* Leaves errno as it is. */
void temp_file_release(struct temp_file *self);

#endif
