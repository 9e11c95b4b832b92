#ifndef AGENT_PROCESS_PROCESS_TABLE_H
#define AGENT_PROCESS_PROCESS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/step_report.h"

/* What /proc says of processes. They come and go while it is read. */

/* Whether /proc can be read, and is this pid namespace's: in any other one the numbers mean other
   processes. */
bool process_table_is_known(void);

/* The parent of a process, a zombie too; 0: it has none here. -1: there is no such process. */
pid_t process_table_parent(pid_t pid);

/* The same, and whether a thread of it still runs: the process may go on without its first thread,
   and then looks like a zombie except for the number of its threads. */
pid_t process_table_living(pid_t pid, bool *lives);

/* How far /proc has been read, and until when it may be read. All zeros: from the beginning,
   without a limit. */
struct process_scan {
  long position;
  int64_t until_ms; /* of clock_monotonic_ms; 0: no limit */
};

/* Calls back for each process from the position on; for none when /proc is not known. Returns true
   at the end of /proc, and sets the position to the beginning. Returns false when the time is over:
   the next call continues there. */
bool process_table_each(struct process_scan *scan, void (*visit)(void *context, pid_t pid),
                        void *context);

/* Reads /proc/<pid>/<name> (0: /proc/self) up to size - 1 bytes, adds a NUL; returns the length, or
   -1. */
ssize_t process_table_read_file(pid_t pid, const char *name, char *out, size_t size);

/* A process that has a pipe open. */
struct pipe_holder {
  pid_t pid; /* 0: there is none */
  char name[32];
  char command[STEP_PROCESS_COMMAND_SIZE]; /* as of process_table_command */
};

/* Whether the process has one of the pipes open, by their inode numbers (0: none). Looks at the
   first 1,024 descriptors of the process. */
bool process_table_has_pipe(pid_t pid, const ino_t pipes[2]);

/* Who holds it: the process's name and command. */
struct pipe_holder process_table_holder(pid_t pid);

/* Writes its arguments with spaces between them; where it has none, or reading them could wait for
   what it waits for itself, its name in brackets. "": it is gone. */
void process_table_command(pid_t pid, char *out, size_t size);

/* The fields of proc(5) stat behind the name, which may hold anything; "" where there are none. */
const char *process_table_after_name(const char *stat);

#endif
