#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * A file that appears whole or not at all. It is created under a hidden name beside its own and
 * then renamed: a reader sees the old file or the whole new one, even if the writer is killed. The
 * content of a sealed file also survives a crash of the machine.
 *
 *   staged_file_begin, … write to `fd` …, staged_file_seal (for a program), staged_file_flush
 *   (before a last check), staged_file_commit, and always staged_file_release
 *
 * The hidden name, `.write-<user id>-<hash of the name>`, is the same for one name and user, so
 * that the next writer finds the file of a killed one without searching a directory that may have a
 * million entries. From begin to commit the writer holds a lock (flock(2)), which dies with it. A
 * writer that finds a hidden file waits for its owner, and removes the file. It never writes to it,
 * since the file may be a link or carry another owner's rights. If one owner takes longer than
 * STAGED_FILE_WAIT_MS, the writer fails, because any program that can open the file can lock it
 * forever. On a file system without locks, one of two simultaneous writers of one file may fail.
 *
 * SIGTERM is blocked from begin to release, so that only SIGKILL leaves a hidden file; not while
 * waiting for another writer. Files that are open at once are released in the reverse order.
 *
 * Functions return 0, or -1 with errno. EWOULDBLOCK means that another process has the hidden
 * name.
 */
enum staged_state {
  STAGED_NONE,    /* before begin, after a failed begin, after release */
  STAGED_HIDDEN,  /* after begin */
  STAGED_SEALED,  /* after seal, from STAGED_HIDDEN */
  STAGED_FLUSHED, /* after flush, from STAGED_HIDDEN */
  STAGED_IN_PLACE /* after commit, from any of the three */
};

struct staged_file {
  enum staged_state state;
  int directory;    /* the caller's; O_PATH is enough */
  const char *name; /* the caller's, until the release */
  int fd;           /* for writing, for reading once it is sealed; -1 if not open */
  char hidden[64];
  sigset_t mask; /* the caller's, which release restores */
};

/* Longer than a writer takes, even if it copies the tools of a carrier image. */
#define STAGED_FILE_WAIT_MS 30000

/* A value that release accepts without a begin. */
#define STAGED_FILE_NONE ((struct staged_file){.fd = -1})

/* `name` has no slash. The umask applies to the mode. */
int staged_file_begin(struct staged_file *self, int directory, const char *name, mode_t mode);

/* Sets exactly this mode and syncs the content. Nobody has a sealed file open for writing, so that
   it can be executed as soon as it has its name. */
int staged_file_seal(struct staged_file *self, mode_t mode);

/* Asks for the errors that a file system would report later; nothing may be written to `fd` after
   it. A commit without it does the same. */
int staged_file_flush(struct staged_file *self);

/* Renames the file and closes `fd`. Does not replace a directory (EISDIR). */
int staged_file_commit(struct staged_file *self);

/* Removes the hidden file if it was not committed. Keeps errno. */
void staged_file_release(struct staged_file *self);

/* Whether the name belongs to the open file. */
bool staged_file_has_name(int fd, int directory, const char *name);
