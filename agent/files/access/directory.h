#ifndef AGENT_FILES_ACCESS_DIRECTORY_H
#define AGENT_FILES_ACCESS_DIRECTORY_H

#include <dirent.h>
#include <stdbool.h>

#include "base/error.h"

/*
 * Directories, by descriptor.
 *
 *   int root = directory_open(path, &error);             -- the one that somebody named
 *   DIR *below = directory_open_below(root, "name");     -- from there on
 *   while (directory_next(below, &entry))
 *     … entry.name, directory_is_one(dirfd(below), &entry) …
 *   closedir(below), close(root)
 */

/* The longest name in bytes. Most file systems have 255, but those of other systems count
   characters, and FUSE allows 1024. */
#define DIRECTORY_NAME_MAX 1024

struct directory_entry {
  const char *name;   /* until the next one is read */
  unsigned char type; /* DT_REG, …; DT_UNKNOWN when it may not be looked at */
};

/* Symbolic links are followed. Returns a descriptor that is the caller's, close-on-exec, or -1 with
   an error, which says the reason first and the path last. */
int directory_open(const char *path, struct error *error);

/* By its mere name, or "."; no symbolic link is followed. NULL: errno says why. */
DIR *directory_open_below(int parent, const char *name);

/* In no order, without "." and "..". False at the end, where errno is 0, or else says why it came
   early. What vanishes meanwhile is no entry. */
bool directory_next(DIR *self, struct directory_entry *entry);

/* The type of what the entry of this name is, where a file system left it out; -1: it has vanished.
   For directory_next. */
int directory_type(int parent, const char *name, unsigned char type);

/* Whether it is a directory or a symbolic link to one. */
bool directory_is_one(int parent, const struct directory_entry *entry);

#endif
