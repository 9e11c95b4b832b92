#ifndef AGENT_PROCESS_EXEC_PROBE_H
#define AGENT_PROCESS_EXEC_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * What can be seen of a file that execve(2) refused. To look may take as long as the file system
 * likes, so that the child does it, and by raw system calls alone: see launch.h. The words are
 * exec_error's.
 */
struct exec_probe {
  int error;  /* what execve said */
  bool there; /* the path leads to something */
  mode_t mode;
  ssize_t head_length;     /* -1: it cannot be read */
  unsigned char head[257]; /* how it begins, with a NUL behind */
  char loader[128];        /* that a 64-bit ELF program names; "": none */
};

/* Fills in facts that are all zeros. `path` is looked at from the current directory. */
void exec_probe_file(struct exec_probe *self, const char *path, int exec_errno);

#endif
