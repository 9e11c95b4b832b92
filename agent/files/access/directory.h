#ifndef AGENT_FILES_ACCESS_DIRECTORY_H
#define AGENT_FILES_ACCESS_DIRECTORY_H

#include <dirent.h>
#include <stdbool.h>

#include "base/error.h"

/* Opens and reads directories by descriptor. The caller closes them with closedir(3). */

/* The longest name in bytes. Most file systems allow 255; FUSE allows 1024 (FUSE_NAME_MAX). */
#define DIRECTORY_NAME_MAX 1024

struct directory_entry {
  const char *name;   /* valid until the next call */
  unsigned char type; /* DT_REG, …; DT_UNKNOWN if stat is not permitted */
};

/* Opens the path of a step. Follows symbolic links. Returns NULL with an error of path_fail. */
DIR *directory_open(const char *path, struct error *error);

/* `name` is an entry of `parent`, or "."; links are not followed. Returns NULL with errno. */
DIR *directory_open_below(int parent, const char *name);

/* Reads the next entry, in no order, without "." and ".." and without entries that vanish
   meanwhile. Returns false with errno 0 at the end, or with another errno after an error. */
bool directory_next(DIR *self, struct directory_entry *entry);

/* Returns the type of an entry, which it looks up if the file system reports DT_UNKNOWN, or -1 if
   the entry has vanished. For directory_next. */
int directory_type(int parent, const char *name, unsigned char type);

/* Whether the entry is a directory or a symbolic link to one. */
bool directory_is_one(int parent, const struct directory_entry *entry);

#endif
