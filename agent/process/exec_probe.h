#ifndef AGENT_PROCESS_EXEC_PROBE_H
#define AGENT_PROCESS_EXEC_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Facts about a file that execve(2) refused, from which exec_error makes a sentence. The file
 * system may take any time to answer, so that the child collects them, by raw system calls alone:
 * see launch.h.
 */
struct exec_probe {
  int error;  /* of execve */
  bool there; /* the path leads to something */
  mode_t mode;
  ssize_t head_length;     /* -1: it cannot be read */
  unsigned char head[257]; /* its first bytes, as many as the kernel looks at, and a NUL */
  char loader[128];        /* that a 64-bit ELF program names; "": none */
  char interpreter[257];   /* that the first line of a script names; "": none */
  mode_t interpreter_mode; /* 0: it is not there */
};

/* Fills in a probe that is all zeros. A relative path begins at the current directory. */
void exec_probe_file(struct exec_probe *self, const char *path, int exec_errno);

#endif
