#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/buffer.h"

/*
 * The file that a writer is going to replace, so that two writers do not lose each other's changes.
 *
 * Writers lock the file itself (flock(2)) and therefore take turns, whatever name they use and
 * whatever user they are. A writer that has waited for a replaced file finds another file under the
 * name, and begins again. Other programs do not lock, and some file systems cannot. A writer
 * therefore checks, right before it replaces the file, that it is still the same one, and an edit
 * checks that it still has the content that was read. A program that has the file open for longer
 * may still append to the old one; such lines are carried over to the new file.
 */
struct file_version {
  int fd;           /* -1 if there is no file */
  struct stat file; /* when it was locked */
};

/* Locks the file that is open as `fd`. Waits at most FILE_VERSION_WAIT_MS, which is longer than a
   writer takes, because any program that can read the file may hold the lock forever. Returns
   whether the path still leads to the file. `at` and `flags` are those of fstatat(2). */
bool file_version_lock(struct file_version *self, int at, const char *path, int flags);
#define FILE_VERSION_WAIT_MS 2000

/* Whether the path still leads to this file, or to none if there was none. If `text` is not NULL,
   the file must also have this content and the same times. */
bool file_version_is_current(const struct file_version *self, const struct buffer *text, int at,
                             const char *path, int flags);

/* Adds what others have appended behind `text` to the replaced file. Waits for a moment if a
   program has it open for writing. Returns 0, or -1 with errno. */
int file_version_add_appended(const struct file_version *self, const struct buffer *text,
                              struct buffer *appended);

/* Closes the file, which ends the lock. Keeps errno. */
void file_version_release(struct file_version *self);
