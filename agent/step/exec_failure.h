#ifndef AGENT_STEP_EXEC_FAILURE_H
#define AGENT_STEP_EXEC_FAILURE_H

#include "agent/step/exec_facts.h"
#include "base/error.h"

/*
 * Says why execve(2) refused a file, for a person. The errno alone misleads: ENOENT for a file that
 * exists means that its interpreter or loader is missing (a glibc program in a musl image), and
 * ENOEXEC may be a program for another machine or a script without its first line. `path` is what
 * the file is called; it is not looked at. Returns -1, like error_set.
 */
int exec_failure(struct error *error, const char *path, const struct exec_facts *facts);

#endif
