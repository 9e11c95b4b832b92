#ifndef AGENT_PROCESS_PIPE_HOLDER_H
#define AGENT_PROCESS_PIPE_HOLDER_H

#include <stddef.h>

/*
 * Names a process other than this one that has the pipe of this descriptor open, like
 * "pid 42 (sleep)". Returns the number of such processes; `name` is of the first, or "". Reads all of
 * /proc.
 */
size_t pipe_holder_find(int fd, char *name, size_t size);

#endif
