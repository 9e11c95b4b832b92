#ifndef BASE_PROCESS_TITLE_H
#define BASE_PROCESS_TITLE_H

#include <stddef.h>

/*
 * The command line that ps(1) shows for this process. The kernel shows the memory of argv. If the
 * last byte of argv is overwritten, it shows one string instead, which may continue into the
 * memory of the environment behind argv.
 */
struct process_title {
  char *area;       /* NULL if the title cannot be changed */
  size_t arguments; /* the bytes of argv */
  size_t size;      /* the bytes of argv and of the environment */
};

/* Finds the memory. To be called before anything changes argv or the environment. */
struct process_title process_title_find(int argc, char **argv, char *const *environment);

/* Shows the text, cut to the size of the memory. Overwrites the arguments, and as much of the
   environment as the text needs: the caller has replaced `environ` before. */
void process_title_set(const struct process_title *self, const char *text);

#endif
