#ifndef AGENT_FILES_ACCESS_FILE_VERSION_H
#define AGENT_FILES_ACCESS_FILE_VERSION_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/buffer.h"

/*
 * The file that a writer is going to replace, so that two writers do not lose each other's changes.
 *
 * Writers lock the file itself (flock(2)) and therefore take turns, whichever name of it they use,
 * and whichever user they are. A replaced file keeps its lock. A writer that has waited for it
 * finds another file under the name, and begins again with that one. Other programs do not ask for
 * the lock, and some file systems have none. The writer therefore also checks, right before it
 * replaces the file, that it is still the same one, and an edit checks that the content is still
 * the one that it has read. A program that had the file open for longer than that may still append
 * to the old one: such a line is carried over to the new file.
 */
struct file_version {
  int fd;           /* -1: there is no file */
  struct stat file; /* as it was when it was locked */
};

/* Locks a file that was opened as `fd`. Waits at most FILE_VERSION_WAIT_MS, which is longer than a
   writer takes: any program that can read the file may hold the lock for ever. Returns whether the
   path still leads to the file. `at` and `flags` are those of fstatat(2). */
bool file_version_lock(struct file_version *self, int at, const char *path, int flags);
#define FILE_VERSION_WAIT_MS 2000

/* Whether the path still leads to this file, or to none if there was none. If `text` is not NULL,
   it is what was read from the file, which must also have this content and the same times. */
bool file_version_is_current(const struct file_version *self, const struct buffer *text, int at,
                             const char *path, int flags);

/* After it was replaced: adds what was appended to the file after `text`. Waits for a moment if a
   program still has it open for writing. Returns 0, or -1 with errno. */
int file_version_add_appended(const struct file_version *self, const struct buffer *text,
                              struct buffer *appended);

/* Closes the file, which ends the lock. Leaves errno as it is. */
void file_version_release(struct file_version *self);

#endif
