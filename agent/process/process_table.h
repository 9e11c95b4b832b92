#ifndef AGENT_PROCESS_PROCESS_TABLE_H
#define AGENT_PROCESS_PROCESS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What /proc says of processes, one by one or as a snapshot of all. Processes come and go while a
 * snapshot is taken: it may hold a parent that is gone, and even a circle.
 */
struct process_entry {
  pid_t pid;
  pid_t parent;
  pid_t group;
  pid_t session;
  uint64_t started; /* ticks since boot */
  bool zombie;
};

/* Whether /proc can be read, and is this pid namespace's: in any other one the numbers mean other
   processes. */
bool process_table_is_known(void);

/* False when there is no such process; of a zombie everything is known. */
bool process_table_read_entry(pid_t pid, struct process_entry *entry);

/* Calls back for each process; false when /proc is not known. */
bool process_table_each(void (*visit)(void *context, pid_t pid), void *context);

/* Reads /proc/<pid>/<name> up to size - 1 bytes, adds a NUL; returns the length, or -1. */
ssize_t process_table_read_file(pid_t pid, const char *name, char *out, size_t size);

/* The value of a variable in its environment, cut at the buffer's end. False when it has none, may
   not be read, or is a zombie's. */
bool process_table_read_variable(pid_t pid, const char *name, char *value, size_t size);

struct process_table {
  struct process_entry *entries; /* by pid, ascending */
  size_t count;
  size_t capacity;
};

/* Takes the snapshot, to be released in any case; false when /proc is not known. */
bool process_table_take(struct process_table *self);
void process_table_release(struct process_table *self);

/* NULL: there is none. */
const struct process_entry *process_table_find(const struct process_table *self, pid_t pid);

#endif
