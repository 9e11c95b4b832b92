#ifndef INJECT_INJECT_H
#define INJECT_INJECT_H

#include <stddef.h>

/*
 * Copies the running program to where another container will run it. Needs nothing but libc and a
 * directory it may write: no /proc, no shell, constant memory.
 *
 * `target` is a file, or a directory (one that exists, or a name with a slash at its end), which
 * then gets the file "agent". Missing parents are created with mode 0755. The file appears
 * whole or not at all (base/staged_file.h), executable for everybody whatever the umask, and is
 * compared with the program before it is renamed. A regular file of that name is replaced, and so is
 * a symbolic link to one or to nowhere; anything else is an error, as is anything but a directory in
 * the place of the tools.
 *
 * Where `tools` is a directory (the carrier image's /python), it is copied beside the program,
 * under its own name, in the same way. So is the file `bundle` (its /ca-certificates.crt), with mode
 * 0644. What does not exist is not copied.
 *
 * Returns 0, with one line in `text` that names the file (and says whether its directory is closed
 * to other users), or -1 with one line: the path, the reason, and what to do. What was created on
 * the way is then removed again. Waits for another injector of the same target and user.
 */
int inject_program(const char *target, const char *tools, const char *bundle, char *text,
                   size_t size);

#endif
