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

/* Calls back for each process; for none when /proc is not known. */
void process_table_each(void (*visit)(void *context, pid_t pid), void *context);

/* Reads /proc/<pid>/<name> (0: /proc/self) up to size - 1 bytes, adds a NUL; returns the length, or -1. */
ssize_t process_table_read_file(pid_t pid, const char *name, char *out, size_t size);

/* Names a process other than this one that has the pipe of this descriptor open, like
   "pid 42 (sleep)", or writes "". Reads all of /proc. */
void process_table_pipe_holder(int fd, char *name, size_t size);

/*
 * The processes below one that is a child subreaper: its children, their children, and so on. Who has
 * lost his parent is a child of the subreaper, so that nobody leaves the tree but by his end, whatever
 * his session, his environment or his name.
 */
struct process_tree {
  pid_t root;    /* this process */
  pid_t command; /* a child that leads a process group and is not reaped; 0: there is none */
  /* Children of the root that do not belong, with all that is below them; NULL: all belong. */
  bool (*is_excepted)(void *context, pid_t child);
  void *context;
};

/*
 * Sends the signal (0: none) to each of them, to a process before its children are listed: those that
 * it makes from then on are not made once SIGKILL is pending. SIGTERM is followed by SIGCONT: a stopped
 * process cannot obey. Looks at PROCESS_TREE_MAX processes at the most. Returns how many there were,
 * dead ones that are not reaped included. Processes that come meanwhile may be missed: who wants all
 * dead repeats it until the root has no child.
 *
 * Where /proc is not this pid namespace's, the command's process group is signalled alone.
 */
size_t process_tree_signal(const struct process_tree *self, int signal);

#define PROCESS_TREE_MAX 4096

#endif
