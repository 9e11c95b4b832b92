#ifndef BASE_STAGED_FILE_H
#define BASE_STAGED_FILE_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * A file that appears whole or not at all. It is made under a hidden name beside its own and
 * renamed: a reader sees the old one or the whole new one, also when the maker is killed. What was
 * sealed is so after a crash of the machine, too.
 *
 *   staged_file_begin      the hidden file, empty. Waits while another process is making one of the
 *                          same name
 *     … write to `fd` …
 *   staged_file_seal       when it is a program: no more writing, mode, fsync
 *   staged_file_flush      when something is to be checked right before the commit
 *   staged_file_commit     rename; of what is sealed fsync of the directory
 *   staged_file_release    always; removes what was not committed
 *
 * The hidden name, `.write-<user id>-<hash of the name>`, is always the same for one name and user.
 * The next writer therefore finds what a killed one left without searching the directory, which may
 * have a million entries. What lies under it is locked (flock) by its maker from begin to commit.
 * The lock dies with the maker. Whoever finds a hidden file takes an exclusive lock, which waits
 * for the maker, and then removes the file: it is never written to, since it may be a link to
 * something else or carry another owner's rights. On file systems without locks every maker counts
 * as dead: of two that write one file there at the same time, one may fail.
 *
 * SIGTERM is blocked from begin to release, so that only SIGKILL leaves a hidden file behind. It is
 * not blocked while another maker is waited for; that has no bound: a maker that is stopped, or
 * whose host is gone without releasing the lock (NFS), is waited for until this process is ended.
 * Several may be open at once if they are released in the reverse order of their begins.
 *
 * Functions return 0, or -1 with errno. EWOULDBLOCK: another process took the hidden name away.
 */
enum staged_state {
  STAGED_NONE,    /* nothing was made: before begin, after its failure, after release */
  STAGED_HIDDEN,  /* begin. The release removes it */
  STAGED_SEALED,  /* seal, from STAGED_HIDDEN; likewise */
  STAGED_FLUSHED, /* flush, from STAGED_HIDDEN; likewise */
  STAGED_IN_PLACE /* commit, from any of the three */
};

struct staged_file {
  enum staged_state state;
  int directory;    /* where it is made; the caller's, O_PATH is enough */
  const char *name; /* the caller's, kept until the release */
  int fd;           /* for reading and writing, once it is sealed for reading; -1: there is none */
  char hidden[64];
  sigset_t mask; /* the caller's, restored by the release */
};

/* What release may be called with when begin never was. */
#define STAGED_FILE_NONE                                                                           \
  (struct staged_file) {                                                                           \
    .fd = -1                                                                                       \
  }

/* `name` has no slash. The mode is subject to the umask. */
int staged_file_begin(struct staged_file *self, int directory, const char *name, mode_t mode);

/* Sets the mode as it is given, whatever the umask, and writes out to the disk. Nobody has a sealed
   file open for writing, so that it can be executed as soon as it has its name. */
int staged_file_seal(struct staged_file *self, mode_t mode);

/* What a commit does before the rename, for a caller that has something to check right before that:
   asks for errors that a file system would report later. Nothing more is written to `fd`. */
int staged_file_flush(struct staged_file *self);

/* Closes `fd`. A directory is not replaced (EISDIR). */
int staged_file_commit(struct staged_file *self);

/* Leaves errno as it is. */
void staged_file_release(struct staged_file *self);

/* Whether this is the name of the open file. */
bool staged_file_has_name(int fd, int directory, const char *name);

#endif
