#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/step_report.h"

/* Reads what /proc says about processes. The walks of a tree, the search for the supervisors of
   dead agents and the reports of supervisors use it. The hard part is that processes come and go in
   the meantime, and that some files of /proc block. */

/* Whether /proc is readable and of this pid namespace. In another one the numbers mean other
   processes. */
bool process_table_is_known(void);

/* What proc(5) says about a process or zombie. */
struct process_stat {
  pid_t parent; /* 0: it has none here, or is being reaped */
  char state;
  bool lives; /* a thread of it still runs; it may outlive its first thread */
  unsigned long user_ticks, system_ticks;
  unsigned long long begin_ticks; /* since the machine's start */
  long pages;                     /* resident */
};

/* Returns false if there is no such process; then the parent is -1, and all else zero. */
bool process_table_stat(pid_t pid, struct process_stat *stat);

pid_t process_table_parent(pid_t pid);

/* How far /proc was read, and until when it may be read. All zeros: from the beginning, without a
   limit. */
struct process_scan {
  long position;
  int64_t until_ms; /* of clock_monotonic_ms; 0: no limit */
};

/* Visits each process from the position on; none if /proc is not known. Returns true at the end of
   /proc, and resets the position. Returns false if the time is over; the next call continues. */
bool process_table_each(struct process_scan *scan, void (*visit)(void *context, pid_t pid),
                        void *context);

/* Reads up to size - 1 bytes of /proc/<pid>/<name> (0: /proc/self) and appends a NUL. Returns the
   length, or -1. */
ssize_t process_table_read_file(pid_t pid, const char *name, char *out, size_t size);

/* A process that has a pipe open. */
struct pipe_holder {
  pid_t pid; /* 0: there is none */
  char name[32];
  char command[STEP_PROCESS_COMMAND_SIZE]; /* as of process_table_command */
};

/* Whether the process has one of the pipes open, by their inode numbers (0: none). Reads only its
   first 1,024 descriptors. */
bool process_table_has_pipe(pid_t pid, const ino_t pipes[2]);

/* Returns the process with its name and command. */
struct pipe_holder process_table_holder(pid_t pid);

/* Writes the arguments of a process with spaces between them; its name in brackets if it has none,
   or if reading them could block as long as the process does; "" if it is gone. */
void process_table_command(pid_t pid, char *out, size_t size);
