#ifndef AGENT_PROCESS_EXEC_ERROR_H
#define AGENT_PROCESS_EXEC_ERROR_H

#include "base/error.h"

/*
 * Writes why execve(2) refused a file, for a person. The errno alone misleads: ENOENT for a file
 * that exists means that its interpreter or loader is missing (a glibc program in a musl image),
 * and ENOEXEC may be a program for another machine or a script without its first line. Opens the file
 * at `path`, which may take as long as its file system needs; `shown` stands for it in the text.
 * Returns -1, like error_set. Allocates nothing.
 */
int exec_error(struct error *error, const char *shown, const char *path, int exec_errno);

#endif
