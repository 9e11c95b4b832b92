#ifndef AGENT_STEP_EXEC_FACTS_H
#define AGENT_STEP_EXEC_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * What can be seen of a file that execve(2) refused. To look may take as long as the file system
 * likes, so that the child does it, and by raw system calls alone: see launch.h. The words are
 * exec_failure's.
 */
struct exec_facts {
  int error;  /* what execve said */
  bool there; /* the path leads to something */
  mode_t mode;
  ssize_t head_length;     /* -1: it cannot be read */
  unsigned char head[257]; /* how it begins, with a NUL behind */
  char loader[128];        /* that a 64-bit ELF program names; "": none */
};

/* Fills in facts that are all zeros. `path` is looked at from the current directory. */
void exec_facts_look(struct exec_facts *self, const char *path, int exec_errno);

#endif
