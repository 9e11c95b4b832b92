#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Information about processes from /proc. No function fails the test: a process that is gone has no
   figures, and each function documents its result then. */

/* Returns the whole file /proc/<pid>/<name>, NUL-terminated, to be freed; NULL if it cannot be
   read. */
char *proc_read(pid_t pid, const char *name, size_t *length);

/* A figure of /proc/<pid>/status in KiB, such as "VmRSS" or "VmHWM"; -1 if there is none. */
long proc_status_kib(pid_t pid, const char *field);

/* The number of open descriptors; -1 if unknown. */
int proc_fd_count(pid_t pid);

/* The number of children, including zombies; `zombies` may be NULL. */
int proc_child_count(pid_t parent, int *zombies);

/* The state letter of /proc/<pid>/stat; NUL if the process is gone. */
char proc_state(pid_t pid);

/* The child at this position, from 0, in the order of /proc; 0: there are fewer. */
pid_t proc_child_of(pid_t parent, int place);

/* Finds the live process whose arguments, joined by single spaces, are exactly `command_line`; 0:
   none. Searches only descendants of this process, whatever they did to their environment or
   session, so that parallel tests do not meet: test_main.c adopts orphans. */
pid_t proc_find(const char *command_line);

/* Waits until proc_find finds the process (returns the pid), or until it no longer does. */
pid_t proc_wait_for(const char *command_line, int bound_ms);
bool proc_wait_gone(const char *command_line, int bound_ms);

/* Waits until the process has ended; it may be a zombie. */
bool proc_wait_pid_gone(pid_t pid, int bound_ms);

/* Whether the process sleeps in this system call (SYS_…). */
bool proc_sleeps_in(pid_t pid, long system_call);

/* Waits until its parent has reaped it. */
bool proc_wait_reaped(pid_t pid, int bound_ms);

/* Kills the process and its descendants, or only its descendants. */
void proc_kill_tree(pid_t pid);
void proc_kill_children(pid_t pid);
