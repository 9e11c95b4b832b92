#ifndef AGENT_FILES_TREE_LEVELS_H
#define AGENT_FILES_TREE_LEVELS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/files/access/directory.h"
#include "base/error.h"

/* Chooses the first LEVELS_MAX entries below a directory, level by level, and in the caller's order
   within a level. A level is read after all of the level above it is chosen, so that the
   directories to read are among the chosen items. They are opened from the root by names alone, so
   that no symbolic link is followed. */
#define LEVELS_MAX 1000

struct levels_found {
  size_t entries; /* in the answer */
  bool is_cut;    /* there are more */
  size_t unread;  /* necessary directories that could not be read, or not to their end */
};

struct level_entry {
  struct level_entry *parent; /* NULL for the root */
  const char *text;           /* the name, or a path that ends with it */
  const char *name;           /* within the text */
  size_t order;               /* among all chosen items */
  unsigned depth;             /* 1 directly below the root */
  bool is_entered;            /* a directory, not a link to one */
  bool is_last;               /* its entries come after all others */
};

/* The caller sets the members up to `found`. */
struct levels {
  size_t size;                                        /* of an item */
  int (*compare)(const void *one, const void *other); /* > 0 if `one` comes later */
  /* Whether entries of the directory may come before this item of another directory. */
  bool (*is_before)(const struct level_entry *directory, const struct level_entry *item);
  /* Called for each entry of a directory. Makes an item that begins with the entry, and calls
     levels_add if levels_accepts allows it. */
  void (*offer)(struct levels *self, const struct level_entry *entry, int parent,
                const struct directory_entry *found);
  struct levels_found *found; /* except `entries` */
  DIR *root;
  void *items[LEVELS_MAX]; /* of the upper levels, then of this level in order */
  size_t begin, count;     /* where this level begins, and the number of all items */
};

/* Depth 1 is the directory's own entries. Returns -1 if the root cannot be read. */
int levels_read(struct levels *self, const char *path, unsigned max_depth, struct error *error);

/* Whether the item is among the first so far of its level; if not, the answer is cut. */
bool levels_accepts(struct levels *self, const void *item);

/* Adds a copy of an item and of its text, and frees the last item if there are too many. */
void levels_add(struct levels *self, const void *item);

/* Sorts all items in the caller's order, whatever their level. */
void levels_sort(struct levels *self);

void levels_release(struct levels *self);

#endif
