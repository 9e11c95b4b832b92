#pragma once

#include <stddef.h>
#include <sys/types.h>

/*
 * `agent --inject`: copies the program into a volume from which another container runs it. main.c
 * calls it. The hard part is that the copy appears whole or not at all, even if several containers
 * inject at the same time.
 */

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
 * whole or not at all (staged_file.h), and is compared with the program before the rename. Then it
 * gets mode 0111 if it runs with that (make_unreadable in inject.c), or else 0755. A regular file
 * of that name is replaced, and so is a symbolic link to one or to nowhere; anything else is an
 * error, and so is anything but a directory in the place of the tools.
 *
 * The carrier's `tools` (/python in the carrier image) and `files` (/ca-certificates.crt, /sandbox)
 * are copied beside the program under their own names if they exist.
 *
 * All of them are created under hidden names and renamed when all are complete, the program last,
 * so that anyone who waits for it finds the others. If this process is killed, each is the old one
 * or the whole new one; the tools may also be missing, because replacing a directory takes two
 * renames. The next injector with the same target and user removes the hidden files of a killed
 * one, and waits for a living one.
 *
 * Returns 0 with one line in `text` that names the file and says if other users cannot reach its
 * directory; or -1 with one line: the path, the reason, and what to do. Everything that was created
 * is then removed, except what already has its name when a later rename fails.
 */
int inject_program(const char *target, const struct inject_carrier *carrier, char *text,
                   size_t size);
