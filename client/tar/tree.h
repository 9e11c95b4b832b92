#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"

/* Reads a directory of this machine and everything below it, for a copy. What cannot be
   read is left out, and the rest is read. Callbacks that return an int return 0; any other value
   except TREE_SKIP ends the reading. */

/* The bits of a mode that a copy keeps, which set-id bits are not among. */
#define TREE_MODE 01777

/* From `begin` or `put`: the rest of this entry is not read, and has no `end`. */
#define TREE_SKIP (-2)

struct tree_entry {
  const char *name; /* "./a/b"; the name of a directory ends with a slash */
  const char *link; /* the target of a symbolic link; NULL: a file or a directory */
  const struct stat *status;
  uint64_t size; /* of a file's content, which may be shorter if the file changes */
};

/* Is told of entries that are left out, and of those that are copied, but not as they were. */
struct tree_report {
  void (*leave_out)(void *owner, const char *name, const char *why);
  void (*warn)(void *owner, const char *name, const char *why);
  void *owner;
};

struct tree_reader {
  /* Between these two calls, a file has its content, and a directory has its entries. */
  int (*begin)(void *owner, const struct tree_entry *entry);
  int (*end)(void *owner, const struct tree_entry *entry);   /* may be NULL */
  int (*put)(void *owner, const char *bytes, size_t length); /* NULL: no content is read */
  void *owner;
  const struct tree_report *report; /* may be NULL */
};

/* Returns true if an open file has changed since this status was read. */
bool tree_has_changed(int fd, const struct stat *before);

/* Returns 0, what a callback has returned, or -1 with the error if the directory itself cannot be
   read. */
int tree_read(const char *directory, const struct tree_reader *reader, struct error *error);
