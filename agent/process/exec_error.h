#ifndef AGENT_PROCESS_EXEC_ERROR_H
#define AGENT_PROCESS_EXEC_ERROR_H

#include "agent/process/exec_probe.h"
#include "base/error.h"

/*
 * Writes why execve(2) refused a file, for a person. The errno alone misleads: ENOENT for a file
 * that exists means that its interpreter or loader is missing (a glibc program in a musl image),
 * and ENOEXEC may be a program for another machine or a script without its first line. `path` is
 * only shown, not opened. Returns -1, like error_set.
 */
int exec_error(struct error *error, const char *path, const struct exec_probe *probe);

#endif
