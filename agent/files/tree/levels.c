#include "agent/files/tree/levels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/files/tree/walk.h"
#include "base/memory.h"

bool levels_accepts(struct levels *self, const void *item) {
  bool accepts =
      self->count < LEVELS_MAX ||
      (self->count > self->begin && self->compare(item, self->items[self->count - 1]) < 0);
  self->found->is_cut = self->found->is_cut || !accepts;
  return accepts;
}

static void insert(struct levels *self, void *item) {
  size_t low = self->begin, high = self->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (self->compare(self->items[middle], item) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  /* memmove(3) of musl would move this by bytes. */
  for (self->count++; low < self->count; low++) {
    void *moved = self->items[low];
    self->items[low] = item;
    item = moved;
  }
}

void levels_add(struct levels *self, const void *item) {
  if (self->count == LEVELS_MAX) {
    self->found->is_cut = true;
    free(self->items[--self->count]);
  }
  const struct level_entry *entry = item;
  size_t length = strlen(entry->text);
  struct level_entry *copy = memory_allocate(self->size + length + 1);
  char *text = (char *)copy + self->size;
  memcpy(copy, item, self->size);
  memcpy(text, entry->text, length + 1);
  copy->text = text;
  copy->name = text + (entry->name - entry->text);
  insert(self, copy);
}

void levels_sort(struct levels *self) {
  size_t count = self->count;
  self->begin = 0;
  for (self->count = 0; self->count < count;)
    insert(self, self->items[self->count]);
}

void levels_release(struct levels *self) {
  while (self->count > 0)
    free(self->items[--self->count]);
}

static void read_entries(struct levels *self, struct level_entry *parent, DIR *directory) {
  struct directory_entry found;
  errno = 0;
  /* If no item of this level can be added, it only matters whether there is one. */
  while ((self->begin < LEVELS_MAX || !self->found->is_cut) && directory_next(directory, &found)) {
    const struct level_entry entry = {.parent = parent,
                                      .text = found.name,
                                      .name = found.name,
                                      .depth = parent != NULL ? parent->depth + 1 : 1,
                                      .is_entered = found.type == DT_DIR,
                                      .is_last = parent != NULL && parent->is_last};
    self->offer(self, &entry, dirfd(directory), &found);
    errno = 0;
  }
  self->found->unread += errno != 0 && errno != ENOENT; /* read in part */
}

/* Returns NULL with errno. */
static DIR *open_entry(const struct levels *self, const struct level_entry *entry) {
  const char *names[WALK_DEPTH_MAX];
  unsigned count = 0;
  for (; entry != NULL; entry = entry->parent)
    names[count++] = entry->name;
  DIR *directory = directory_open_below(dirfd(self->root), ".");
  while (directory != NULL && count > 0) {
    DIR *below = directory_open_below(dirfd(directory), names[--count]);
    int reason = errno;
    closedir(directory);
    errno = reason;
    directory = below;
  }
  return directory;
}

static void enter(struct levels *self, struct level_entry *entry) {
  if (self->found->is_cut && self->count == LEVELS_MAX &&
      (self->begin == LEVELS_MAX || !self->is_before(entry, self->items[LEVELS_MAX - 1])))
    return; /* all its entries come after the last item */
  if (entry->depth == WALK_DEPTH_MAX) {
    self->found->unread++;
    return;
  }
  DIR *directory = open_entry(self, entry);
  if (directory != NULL) {
    read_entries(self, entry, directory);
    closedir(directory);
  } else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
    self->found->unread++; /* otherwise it has vanished or was replaced */
  }
}

static void end_level(struct levels *self) {
  for (; self->begin < self->count; self->begin++)
    ((struct level_entry *)self->items[self->begin])->order = self->begin;
}

int levels_read(struct levels *self, const char *path, unsigned max_depth, struct error *error) {
  self->root = directory_open(path, error);
  if (self->root == NULL)
    return -1;
  read_entries(self, NULL, self->root);
  end_level(self);
  for (int last = 0; last < 2; last++)
    for (unsigned depth = 1; depth < max_depth && depth <= WALK_DEPTH_MAX && !self->found->is_cut;
         depth++) {
      for (size_t i = 0, end = self->begin; i < end; i++) {
        struct level_entry *entry = self->items[i];
        if (entry->depth == depth && entry->is_entered && entry->is_last == (last == 1))
          enter(self, entry);
      }
      end_level(self);
    }
  closedir(self->root);
  return 0;
}
