#pragma once

#include <stddef.h>

/* The command line that ps(1) shows for this process, which is the memory of argv. If the last byte
   of argv is overwritten, the kernel shows a single string instead, which may extend into the
   memory of the environment behind argv. */
struct process_title {
  char *area;       /* NULL if the title cannot be changed */
  size_t arguments; /* bytes of argv */
  size_t size;      /* bytes of argv and the environment */
};

/* Finds the memory. Call it before anything changes argv or the environment. */
struct process_title process_title_find(int argc, char **argv, char *const *environment);

/* Shows the text, truncated to the size of the memory. It overwrites the arguments and as much of
   the environment as the text needs, so the caller must have replaced `environ` before. */
void process_title_set(const struct process_title *self, const char *text);
