#ifndef INJECT_INJECT_H
#define INJECT_INJECT_H

#include <stddef.h>
#include <sys/types.h>

#define INJECT_FILES_MAX 2

/* What there is to copy besides the program. */
struct inject_carrier {
  const char *tools; /* a directory */
  struct inject_file {
    const char *path; /* NULL: no more of them */
    mode_t mode;
  } files[INJECT_FILES_MAX];
};

/*
 * Copies the running program to where another container will run it. Needs nothing but libc and a
 * directory it may write: no /proc, no shell, constant memory.
 *
 * `target` is a file, or a directory (one that exists, or a name with a slash at its end), which
 * then gets the file "agent". Missing parents are created with mode 0755. The file appears whole
 * or not at all (base/staged_file.h), executable for everybody whatever the umask, and is compared
 * with the program before it is renamed. Then programs get mode 0111, so that no process of the
 * same user can read the memory of one that runs it; 0755 where such a file does not run
 * (trial.h). A regular file of that name is replaced, and so is a symbolic link to one or to
 * nowhere; anything else is an error, as is anything but a directory in the place of the tools.
 *
 * Where the carrier's `tools` is a directory (the carrier image's /python), it is copied beside the
 * program, under its own name, and so is each of its `files` (/ca-certificates.crt, /sandbox), with
 * its mode. What does not exist is not copied.
 *
 * Each of these, and the program, is made under a hidden name beside its own, and renamed when all
 * are made: the tools first and the program last, so that whoever waits for it finds the others
 * already there. Whenever this process is killed, or the machine crashes, each is the old one, the
 * whole new one or, of tools, not there: a directory takes the place of another in two renames. The
 * next injector of the same target and user removes what a killed one left under hidden names; it
 * waits for one that lives.
 *
 * Returns 0, with one line in `text` that names the file (and says whether its directory is closed
 * to other users), or -1 with one line: the path, the reason, and what to do. What was created on
 * the way is then removed again, except for what already has its name when a later rename fails.
 */
int inject_program(const char *target, const struct inject_carrier *carrier, char *text,
                   size_t size);

#endif
