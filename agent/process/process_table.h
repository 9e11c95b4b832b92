#ifndef AGENT_PROCESS_PROCESS_TABLE_H
#define AGENT_PROCESS_PROCESS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What /proc says of processes. They come and go while it is read. */

/* Whether /proc can be read, and is this pid namespace's: in any other one the numbers mean other
   processes. */
bool process_table_is_known(void);

/* The parent of a process, a zombie too; 0: it has none here. -1: there is no such process. */
pid_t process_table_parent(pid_t pid);

/* Calls back for each process; false when /proc is not known. */
bool process_table_each(void (*visit)(void *context, pid_t pid), void *context);

/* Reads /proc/<pid>/<name> up to size - 1 bytes, adds a NUL; returns the length, or -1. */
ssize_t process_table_read_file(pid_t pid, const char *name, char *out, size_t size);

#endif
