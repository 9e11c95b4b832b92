#ifndef INJECT_INJECT_H
#define INJECT_INJECT_H

#include <stddef.h>
#include <sys/types.h>

#define INJECT_FILES_MAX 2

/* The files to copy with the program. */
struct inject_carrier {
  const char *tools; /* a directory */
  struct inject_file {
    const char *path; /* NULL after the last one */
    mode_t mode;
  } files[INJECT_FILES_MAX];
};

/*
 * Copies the running program to where another container will run it. Needs only libc and a writable
 * directory: no /proc, no shell, constant memory.
 *
 * `target` is a file or a directory, which gets the file "agent". A directory is one that exists,
 * or a name that ends with a slash. Missing parents are created with mode 0755. The file appears
 * whole or not at all (base/staged_file.h), is executable for everybody whatever the umask, and is
 * compared with the program before the rename. Then it gets mode 0111, so that no process of the
 * same user can read the memory of a process that runs it, or 0755 if such a file does not run
 * (can_run in inject.c). A regular file of that name is replaced, and so is a symbolic link to one
 * or to nowhere; anything else is an error, and so is anything but a directory in the place of the
 * tools.
 *
 * If the carrier's `tools` is a directory (/python in the carrier image), it is copied beside the
 * program under its own name, and so is each of its `files` (/ca-certificates.crt, /sandbox) with
 * its mode. What does not exist is not copied.
 *
 * All of them are created under hidden names and renamed when all are complete, the program last,
 * so that anyone who waits for the program finds the others. If this process is killed or the
 * machine crashes, each is the old one or the whole new one; the tools may also be missing, because
 * replacing a directory takes two renames. The next injector with the same target and user removes
 * the hidden files of a killed one, and waits for a living one.
 *
 * Returns 0 with one line in `text` that names the file and says if other users cannot reach its
 * directory; or -1 with one line: the path, the reason, and what to do. Everything that was created
 * is then removed, except what already has its name when a later rename fails.
 */
int inject_program(const char *target, const struct inject_carrier *carrier, char *text,
                   size_t size);

#endif
