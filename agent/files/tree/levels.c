#include "agent/files/tree/levels.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

bool levels_accept(struct levels *self, const struct level_entry *entry) {
  if (self->after != NULL && strcmp(entry->path, self->after) <= 0)
    return false;
  bool accepts =
      self->count < LEVELS_MAX ||
      (self->count > self->begin && self->compare(entry, self->entries[self->count - 1]) < 0);
  self->found->is_cut = self->found->is_cut || !accepts;
  return accepts;
}

static void insert(struct levels *self, struct level_entry *entry) {
  size_t low = self->begin, high = self->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (self->compare(self->entries[middle], entry) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  /* memmove(3) of musl would move this by bytes. */
  for (self->count++; low < self->count; low++) {
    struct level_entry *moved = self->entries[low];
    self->entries[low] = entry;
    entry = moved;
  }
}

void levels_add(struct levels *self, const struct level_entry *entry) {
  if (self->count == LEVELS_MAX) {
    self->found->is_cut = true;
    free(self->entries[--self->count]);
  }
  size_t length = strlen(entry->path) + 1;
  struct level_entry *copy = memory_allocate(sizeof *copy + length);
  *copy = *entry;
  copy->path = memcpy(copy + 1, entry->path, length);
  insert(self, copy);
}

void levels_sort(struct levels *self) {
  size_t count = self->count;
  self->begin = 0;
  for (self->count = 0; self->count < count;)
    insert(self, self->entries[self->count]);
}

void levels_release(struct levels *self) {
  while (self->count > 0)
    free(self->entries[--self->count]);
}

static bool is_chosen(const struct levels *self, const struct walk_entry *directory) {
  for (size_t i = 0; i < self->begin; i++)
    if (strcmp(self->entries[i]->path, directory->path) == 0)
      return true;
  return false;
}

/* Whether one of its entries may be chosen, or show that there are too many. */
static bool is_needed(const struct levels *self, const struct walk_entry *directory) {
  const struct level_entry entry = {.path = directory->path, .is_directory = true};
  return !self->found->is_cut || self->count < LEVELS_MAX ||
         (self->begin < LEVELS_MAX && self->compare(&entry, self->entries[LEVELS_MAX - 1]) < 0);
}

/* A walk for the entries of one level. */
struct level_walk {
  unsigned depth, max_depth;
  bool is_last;  /* only entries of excluded directories, which come last, belong to it */
  bool goes_on;  /* there may be deeper entries, */
  bool has_last; /* and entries that come last */
  int outermost; /* depth of the outermost excluded directory around the entry, or INT_MAX */
};

/* Notes which entries the directory may have, and returns whether the walk enters it. */
static bool enter_directory(const struct levels *self, struct level_walk *level,
                            const struct walk_entry *found) {
  const unsigned depth = (unsigned)found->depth + 1;
  if (level->outermost == INT_MAX && walk_is_excluded(found->name))
    level->outermost = found->depth;
  const bool is_last = level->outermost < INT_MAX; /* what is in it */
  const bool belongs = is_last == level->is_last;
  level->has_last |= is_last;
  level->goes_on |= belongs && depth >= level->depth;
  if ((is_last && !belongs) || depth >= (belongs ? level->depth : level->max_depth))
    return false;
  return is_chosen(self, found) && (!belongs || depth + 1 < level->depth || is_needed(self, found));
}

static void read_level(struct levels *self, struct level_walk *level, struct walk *walk) {
  struct walk_entry found;
  level->goes_on = false;
  level->outermost = INT_MAX;
  while (walk_next(walk, &found)) {
    if (found.depth <= level->outermost)
      level->outermost = INT_MAX;
    if ((unsigned)found.depth + 1 == level->depth && level->is_last == (level->outermost < INT_MAX))
      self->offer(self, &found);
    if (found.type == DT_DIR && !enter_directory(self, level, &found))
      walk_skip(walk);
  }
  const char *first;
  size_t unread = walk_unread(walk, &first);
  self->found->unread = unread > self->found->unread ? unread : self->found->unread;
  self->begin = self->count;
}

/* The order within one directory does not matter, so the first walk is not sorted. */
int levels_read(struct levels *self, const char *path, unsigned max_depth, struct error *error) {
  struct walk *walk = walk_new(path, false, error);
  if (walk == NULL)
    return -1;
  struct level_walk level = {.max_depth = max_depth};
  for (int last = 0; last < 2; last++) {
    level.is_last = last == 1;
    level.goes_on = last == 0 || level.has_last;
    for (level.depth = 1; level.goes_on && level.depth <= max_depth && !self->found->is_cut;
         level.depth++) {
      read_level(self, &level, walk);
      walk_restart(walk);
    }
  }
  walk_free(walk);
  return 0;
}
