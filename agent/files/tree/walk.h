#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * Visits everything below a directory, depth first, a directory before its entries. An entry is
 * opened by openat(entry.parent, entry.name, O_NOFOLLOW | …).
 *
 * Each directory is opened below its parent's descriptor by its name alone, without following
 * links. Whatever is renamed or replaced meanwhile, the walk neither leaves the root nor loops.
 * Entries that vanish meanwhile are no error.
 *
 * Memory is bounded: a descriptor and a buffer of the C library for each of at most WALK_DEPTH_MAX
 * levels, one path, and WALK_NAMES_MAX bytes for the sorted names of all levels (twice that while
 * they grow), enough for a million names of 50 bytes.
 */
#define WALK_DEPTH_MAX 256
#define WALK_NAMES_MAX ((size_t)64 * 1024 * 1024)

struct walk_entry {
  const char *path;   /* from the root, without a leading "./"; with a NUL */
  size_t length;      /* of the path */
  const char *name;   /* its last component */
  int parent;         /* the descriptor of its directory, which belongs to the walk */
  int depth;          /* 0 directly below the root */
  unsigned char type; /* DT_REG, …; DT_UNKNOWN if stat is not permitted */
};

struct walk;

/* Names of directories with generated or fetched files, ended by NULL. The walk visits them; its
   callers omit them. */
extern const char *const walk_default_excludes[];
bool walk_is_excluded(const char *name);

/* The directory of a repository with files that users have uploaded for reference, such as copies
   of websites. Searches and trees omit it unless they begin in it. walk_reference returns its path
   relative to `root`, to be freed, or NULL if it is not below the root, is the root, or
   `repository` is NULL. Compares the paths as texts and reads no file. A relative root is relative
   to the repository. */
#define WALK_REFERENCE ".agentsmith/reference"
char *walk_reference(const char *repository, const char *root);

/* With `sorted`, each directory is in the order of bytes; one whose names exceed WALK_NAMES_MAX is
   sorted in portions. Follows symbolic links to the root. Returns NULL with an error of path_fail
   if it cannot be opened. */
struct walk *walk_new(const char *path, bool sorted, struct error *error);

/* Begins again at the same root, sorted. */
void walk_restart(struct walk *self);

/* Returns the descriptor of the root. */
int walk_root(const struct walk *self);

/* Returns false at the end. The entry is valid until the next call. */
bool walk_next(struct walk *self, struct walk_entry *entry);

/* Skips the content of the directory that was the last entry. */
void walk_skip(struct walk *self);

/* Returns how many directories could not be read, or not to their end, because of permissions,
   depth or descriptors; those that vanished do not count. `*first` is the path of the first one
   from the root, "" for the root itself. */
size_t walk_unread(const struct walk *self, const char **first);

/* Accepts NULL. */
void walk_free(struct walk *self);
