#ifndef AGENT_FILES_TREE_WALK_H
#define AGENT_FILES_TREE_WALK_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * Visits what is below a directory, depth first: a directory comes before what is in it.
 *
 *   struct walk *walk = walk_new(path, true, &error);
 *   while (walk_next(walk, &entry))
 *     … entry.path; to open it: openat(entry.parent, entry.name, O_NOFOLLOW | …)
 *     … walk_skip(walk), when it is a directory of no interest
 *   walk_free(walk);
 *
 * Each directory is opened below its parent's descriptor by its mere name, and no symbolic link is
 * followed: whatever is renamed or replaced meanwhile, the walk neither leaves the root nor goes in
 * a circle. What vanishes meanwhile is no error.
 *
 * Memory is bounded: one descriptor and a buffer of the C library for each of WALK_DEPTH_MAX
 * levels at most, one path, and for names to be sorted WALK_NAMES_MAX bytes on all levels together
 * (twice that while the room for them grows), enough for a million names of 50 bytes.
 */
#define WALK_DEPTH_MAX 256
#define WALK_NAMES_MAX ((size_t)64 * 1024 * 1024)

struct walk_entry {
  const char *path;   /* from the root, without "./" in front; with a NUL */
  size_t length;      /* of the path */
  const char *name;   /* its last component */
  int parent;         /* the descriptor of the directory that it is in; not to be closed */
  int depth;          /* 0: directly in the root */
  unsigned char type; /* DT_REG, …; DT_UNKNOWN where stat is not permitted */
};

struct walk;

/* Names of directories that hold what tools made or fetched; ended by NULL. The walk visits them,
   its callers leave them out. */
extern const char *const walk_default_excludes[];

/* Whether the name is in the list. */
bool walk_is_excluded(const char *name);

/* The directory of a repository that holds what users have uploaded for reference, such as copies
   of websites. It is not the project's, so that searches and trees leave it out, unless they begin
   in it. walk_reference returns its path relative to `root`, to be freed; NULL where it is not
   below the root, or is the root, or `repository` is NULL. All by their texts: a relative root
   begins at the repository. */
#define WALK_REFERENCE ".agentsmith/reference"
char *walk_reference(const char *repository, const char *root);

/* `sorted`: each directory by name, in the order of bytes; a directory whose names do not fit
   WALK_NAMES_MAX is sorted in portions. NULL with the error of directory_open. */
struct walk *walk_new(const char *path, bool sorted, struct error *error);

/* The descriptor of the root, until the first walk_next. */
int walk_root(const struct walk *self);

/* Returns false at the end. The entry is valid until the next call. */
bool walk_next(struct walk *self, struct walk_entry *entry);

/* Skips what is in the directory that was the last entry. */
void walk_skip(struct walk *self);

/* Number of directories that could not be read, or not to their end: no permission, too deep, no
   descriptor left. Those that vanished are not counted. `*first` is the path of the first of them,
   from the root, where there is one; "" for the root. */
size_t walk_unread(const struct walk *self, const char **first);

/* May be NULL. */
void walk_free(struct walk *self);

#endif
