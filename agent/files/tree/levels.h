#ifndef AGENT_FILES_TREE_LEVELS_H
#define AGENT_FILES_TREE_LEVELS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/files/access/directory.h"
#include "base/error.h"

/*
 * Chooses the first LEVELS_MAX entries below a directory: level by level, and within a level in the
 * caller's order.
 *
 *   struct levels levels = {
 *       .size = sizeof(struct item), .compare = …, .is_before = …, .offer = …, .found = &found};
 *   if (levels_read(&levels, path, max_depth, &error) == 0)
 *     … levels.items[0] to items[levels.count - 1] …
 *   levels_release(&levels);
 *
 * `offer` is called for each entry of a directory. It makes an item of it, which begins with the
 * entry, and gives that to levels_add where levels_takes says so.
 *
 * A level is read when all of the one above it is chosen. So the directories to read are among the
 * chosen items, and there are never more than these. They are opened from the root by mere names,
 * so that no symbolic link is followed.
 */
#define LEVELS_MAX 1000

struct levels_found {
  size_t entries; /* in the answer */
  bool is_cut;    /* there are more */
  size_t unread;  /* directories that could not be read, or not to their end, of those needed */
};

struct level_entry {
  struct level_entry *parent; /* NULL: it is in the root */
  const char *text;           /* the name, or a path that ends with it */
  const char *name;           /* in the text */
  size_t order;               /* among all that are chosen */
  unsigned depth;             /* 1: in the root */
  bool is_entered;            /* a directory, and no link to one */
  bool is_last;               /* what is in it comes after all that is elsewhere */
};

struct levels {
  size_t size;                                        /* of an item */
  int (*compare)(const void *one, const void *other); /* > 0 when `one` comes later */
  /* Whether what is in the directory may come before this item, which is in another one. */
  bool (*is_before)(const struct level_entry *directory, const struct level_entry *item);
  void (*offer)(struct levels *self, const struct level_entry *entry, int parent,
                const struct directory_entry *found);
  DIR *root;
  void *items[LEVELS_MAX];    /* those of upper levels first; then this one's, in order */
  size_t begin, count;        /* of this level; of all */
  struct levels_found *found; /* all but the entries */
};

/* `max_depth` is at least 1, the directory's own entries; deeper levels than WALK_DEPTH_MAX are not
   visited. -1 when the root cannot be read. */
int levels_read(struct levels *self, const char *path, unsigned max_depth, struct error *error);

/* Whether the item is among the first so far of its level. */
bool levels_takes(struct levels *self, const void *item);

/* Adds a copy of an item that was taken, and of its text; what there is no more room for is
   freed. */
void levels_add(struct levels *self, const void *item);

/* Puts all items in the caller's order, whatever their level. */
void levels_sort(struct levels *self);

void levels_release(struct levels *self);

#endif
