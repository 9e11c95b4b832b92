#ifndef TESTS_SUPPORT_PROC_H
#define TESTS_SUPPORT_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * What /proc tells about processes. Nothing here fails a test: a process that is gone has no
 * figures, and each function says what it returns then.
 */

/* The whole of /proc/<pid>/<name>, NUL behind it, to be freed; NULL when it can not be read. */
char *proc_read(pid_t pid, const char *name, size_t *length);

/* A figure of /proc/<pid>/status in KiB, say "VmRSS" or "VmHWM"; -1 when there is none. */
long proc_status_kib(pid_t pid, const char *field);

/* Open descriptors; -1 when they can not be counted. */
int proc_fd_count(pid_t pid);

/* Children, zombies included; `zombies` may be NULL. */
int proc_child_count(pid_t parent, int *zombies);

/* Its state as one letter of /proc/<pid>/stat; NUL when it is gone. */
char proc_state(pid_t pid);

/* The child in this place, from 0, among those that /proc lists; 0: there are fewer. */
pid_t proc_child_of(pid_t parent, int place);

/* The live process whose arguments, joined by single spaces, are exactly `command_line`; 0: none.
   Only descendants of this process count, whatever they did to their environment or session, so
   that tests that run side by side do not meet: test_main.c adopts orphans. */
pid_t proc_find(const char *command_line);

/* Waits until proc_find finds it (returns the pid) or, the other way round, finds it no more. */
pid_t proc_wait_for(const char *command_line, int bound_ms);
bool proc_wait_gone(const char *command_line, int bound_ms);

/* Waits until there is no process `pid`, a zombie being none. */
bool proc_wait_pid_gone(pid_t pid, int bound_ms);

/* Whether the process sleeps in this system call (SYS_…). */
bool proc_sleeps_in(pid_t pid, long system_call);

/* Waits until its parent has taken note of its end: there is not even a zombie. */
bool proc_wait_reaped(pid_t pid, int bound_ms);

/* SIGKILL for the process and all that descends from it; for all that descends from it only. */
void proc_kill_tree(pid_t pid);
void proc_kill_children(pid_t pid);

#endif
