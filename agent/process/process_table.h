#ifndef AGENT_PROCESS_PROCESS_TABLE_H
#define AGENT_PROCESS_PROCESS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "wire/step_report.h"

/* What /proc says of processes. They come and go while it is read. */

/* Whether /proc can be read, and is this pid namespace's: in any other one the numbers mean other
   processes. */
bool process_table_is_known(void);

/* The parent of a process, a zombie too; 0: it has none here. -1: there is no such process. */
pid_t process_table_parent(pid_t pid);

/* Calls back for each process; for none when /proc is not known. */
void process_table_each(void (*visit)(void *context, pid_t pid), void *context);

/* Reads /proc/<pid>/<name> (0: /proc/self) up to size - 1 bytes, adds a NUL; returns the length, or -1. */
ssize_t process_table_read_file(pid_t pid, const char *name, char *out, size_t size);

/* A process other than this one that has the pipe of a descriptor open. */
struct pipe_holder {
  pid_t pid; /* 0: there is none */
  char name[32];
  char command[STEP_PROCESS_COMMAND_SIZE]; /* as of process_table_command */
};

/* Reads all of /proc. */
struct pipe_holder process_table_pipe_holder(int fd);

/* Writes its arguments with spaces between them; where it has none, or reading them could wait for what
   it waits for itself, its name in brackets. "": it is gone. */
void process_table_command(pid_t pid, char *out, size_t size);

/* The fields of proc(5) stat behind the name, which may hold anything; "" where there are none. */
const char *process_table_after_name(const char *stat);

#endif
