#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "agent/files/tree/walk.h"
#include "base/error.h"

/* Chooses the first LEVELS_MAX entries below a directory, level by level, and in the caller's order
   within a level. The entries of directories that walk_is_excluded names come after all others. A
   walk for each level enters only directories that were chosen. */
#define LEVELS_MAX 1000

struct levels_found {
  size_t entries; /* in the answer */
  bool is_cut;    /* there are more */
  size_t unread;  /* necessary directories that could not be read, or not to their end */
};

struct level_entry {
  const char *path;  /* from the root */
  bool is_directory; /* or a link to one */
  /* The following are the caller's. */
  bool has_stat; /* size and mtime are known */
  int64_t size;
  struct timespec mtime;
};

/* The caller sets the members up to `found`. */
struct levels {
  /* Returns > 0 if `one` comes later than `other`. A directory comes before its entries. */
  int (*compare)(const struct level_entry *one, const struct level_entry *other);
  /* Called for each entry of a level. Calls levels_add if it is wanted and levels_accept
     returns true. */
  void (*offer)(struct levels *self, const struct walk_entry *found);
  const char *after;                       /* the entries up to this path are not wanted; or NULL */
  struct levels_found *found;              /* except `entries` */
  struct level_entry *entries[LEVELS_MAX]; /* of the upper levels, then of this level in order */
  size_t begin, count; /* where this level begins, and the number of all entries */
};

/* Depth 1 is the directory's own entries. Returns -1 if the root cannot be read. */
int levels_read(struct levels *self, const char *path, unsigned max_depth, struct error *error);

/* Returns whether the entry is among the first so far of its level; if not, notes that the answer
   is cut. */
bool levels_accept(struct levels *self, const struct level_entry *entry);

/* Adds a copy of an entry and of its path, and frees the last entry if there are too many. */
void levels_add(struct levels *self, const struct level_entry *entry);

/* Sorts all entries in the caller's order, whatever their level. */
void levels_sort(struct levels *self);

void levels_release(struct levels *self);
