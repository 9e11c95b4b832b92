#include "agent/files/tree/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/directory.h"
#include "agent/files/access/path.h"
#include "agent/files/tree/heap.h"
#include "agent/files/tree/walk.h"
#include "base/memory.h"
#include "base/printable.h"
#include "wire/step_event.h"

struct listing_item {
  const char *path; /* from the root */
  bool is_directory;
  /* by name: */
  unsigned depth;  /* 1: directly in the root */
  bool is_entered; /* a directory, and no link to one */
  bool is_last;    /* what is in it comes last */
  bool has_stat;   /* size and mtime are known */
  int64_t size;
  struct timespec mtime;
};

static int by_name(const void *one, const void *other) {
  const struct listing_item *a = one;
  const struct listing_item *b = other;
  return strcmp(a->path, b->path);
}

static int by_size(const void *one, const void *other) {
  const struct listing_item *a = one;
  const struct listing_item *b = other;
  if (a->size != b->size)
    return a->size < b->size ? 1 : -1;
  return by_name(a, b);
}

static int by_mtime(const void *one, const void *other) {
  const struct listing_item *a = one;
  const struct listing_item *b = other;
  if (a->mtime.tv_sec != b->mtime.tv_sec)
    return a->mtime.tv_sec < b->mtime.tv_sec ? 1 : -1;
  if (a->mtime.tv_nsec != b->mtime.tv_nsec)
    return a->mtime.tv_nsec < b->mtime.tv_nsec ? 1 : -1;
  return by_name(a, b);
}

static int (*const comparisons[])(const void *one, const void *other) = {
    [LISTING_BY_NAME] = by_name, [LISTING_BY_SIZE] = by_size, [LISTING_BY_MTIME] = by_mtime};

/* Returns false when it has vanished. */
static bool read_stat(struct listing_item *item, int parent, const char *name, bool is_directory) {
  struct stat file;
  item->has_stat = fstatat(parent, name, &file, 0) == 0 ||
                   fstatat(parent, name, &file, AT_SYMLINK_NOFOLLOW) == 0;
  if (!item->has_stat) {
    item->is_directory = is_directory;
    return errno != ENOENT;
  }
  item->is_directory = S_ISDIR(file.st_mode);
  item->size = item->is_directory ? 0 : file.st_size;
  item->mtime = file.st_mtim;
  return true;
}

/* A copy with the path in the same allocation. */
static struct listing_item *copy_item(const struct listing_item *item, size_t length) {
  struct listing_item *copy = memory_allocate(sizeof *copy + length + 1);
  char *path = (char *)(copy + 1);
  memcpy(path, item->path, length + 1);
  *copy = *item;
  copy->path = path;
  return copy;
}

/* --- by size and by time: all entries are looked at --- */

/* Returns whether there are more. */
static bool gather(struct walk *walk, unsigned max_depth, struct heap *heap) {
  bool more = false;
  struct walk_entry entry;
  while (walk_next(walk, &entry)) {
    if ((unsigned)entry.depth + 1 >= max_depth || entry.length >= PATH_MAX)
      walk_skip(walk);
    struct listing_item item = {.path = entry.path};
    if (entry.length >= PATH_MAX ||
        !read_stat(&item, entry.parent, entry.name, entry.kind == WALK_DIRECTORY))
      continue;
    bool is_full = heap->count == LISTING_MAX;
    if (!is_full || heap->compare(&item, heap->items[0]) < 0)
      heap_add(heap, copy_item(&item, entry.length));
    more = more || is_full;
    if (heap->count > LISTING_MAX)
      free(heap_take_last(heap));
  }
  return more;
}

static int gather_all(int root, unsigned max_depth, struct heap *chosen,
                      struct listing_result *found) {
  struct walk *walk = walk_new(root, NULL, false);
  if (walk == NULL)
    return -1;
  found->is_cut = gather(walk, max_depth, chosen);
  found->unread = walk_unread(walk);
  walk_free(walk);
  return 0;
}

/* --- by name: level by level --- A level is read when all of the one above it is chosen. So the
   directories to read are among the chosen items, and there are never more than these. */

struct levels {
  int root;
  struct heap *chosen; /* all levels above */
  struct heap level;   /* the first by path of this one, as many as there is room for */
  struct listing_result *found;
};

/* By mere names from the root: no symbolic link is followed. NULL with errno. */
static DIR *open_directory(int root, const char *path) {
  char name[DIRECTORY_NAME_MAX + 1];
  DIR *directory = directory_open_below(root, ".");
  while (directory != NULL && *path != '\0') {
    size_t length = strcspn(path, "/");
    memcpy(name, path, length);
    name[length] = '\0';
    path += length + (path[length] == '/');
    DIR *below = directory_open_below(dirfd(directory), name);
    int error = errno;
    closedir(directory);
    errno = error;
    directory = below;
  }
  return directory;
}

static void add_candidate(struct levels *self, const struct listing_item *directory, int parent,
                          const struct directory_entry *entry) {
  char path[PATH_MAX];
  int length = snprintf(path, sizeof path, "%s%s%s", directory->path,
                        directory->depth > 0 ? "/" : "", entry->name);
  if (length < 0 || (size_t)length >= sizeof path)
    return;
  struct listing_item item = {
      .path = path, .depth = directory->depth + 1, .is_entered = entry->type == DT_DIR};
  item.is_last = directory->is_last ||
                 (item.is_entered && walk_is_excluded(walk_default_excludes, entry->name));
  struct heap *level = &self->level;
  bool is_full = self->chosen->count + level->count == LISTING_MAX;
  if (is_full && (level->count == 0 || by_name(&item, level->items[0]) >= 0)) {
    self->found->is_cut = true;
    return;
  }
  if (!read_stat(&item, parent, entry->name, item.is_entered))
    return;
  heap_add(level, copy_item(&item, (size_t)length));
  if (is_full) {
    self->found->is_cut = true;
    free(heap_take_last(level));
  }
}

static void read_entries(struct levels *self, const struct listing_item *item, DIR *directory) {
  struct directory_entry entry;
  errno = 0;
  /* Where all places are taken, it only matters whether there is one more. */
  while ((self->chosen->count < LISTING_MAX || !self->found->is_cut) &&
         directory_next(directory, &entry)) {
    add_candidate(self, item, dirfd(directory), &entry);
    errno = 0;
  }
  self->found->unread += errno != 0 && errno != ENOENT; /* read in part */
  closedir(directory);
}

/* Whether all that is in it comes after what there is room for, of which more was found already. */
static bool is_needless(const struct levels *self, const struct listing_item *directory) {
  const struct heap *level = &self->level;
  if (!self->found->is_cut || self->chosen->count + level->count < LISTING_MAX)
    return false;
  if (level->count == 0)
    return true;
  const char *last = ((const struct listing_item *)level->items[0])->path;
  size_t length = strlen(directory->path);
  int order = strncmp(directory->path, last, length);
  return order > 0 || (order == 0 && (unsigned char)last[length] < '/');
}

static void enter(struct levels *self, const struct listing_item *item) {
  if (is_needless(self, item))
    return;
  if (item->depth == WALK_DEPTH_MAX) {
    self->found->unread++;
    return;
  }
  DIR *directory = open_directory(self->root, item->path);
  if (directory != NULL)
    read_entries(self, item, directory);
  else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
    self->found->unread++; /* otherwise it has vanished, or is something else by now */
}

static void choose_level(struct levels *self) {
  while (self->level.count > 0)
    heap_add(self->chosen, heap_take_last(&self->level));
}

static int from_the_last(const void *one, const void *other) {
  return by_name(other, one);
}

/* In the order of their paths, so that the later ones need not be read. */
static void read_level(struct levels *self, unsigned depth, bool is_last) {
  struct heap directories = {.compare = from_the_last};
  for (size_t i = 0; i < self->chosen->count; i++) {
    struct listing_item *item = self->chosen->items[i];
    if (item->depth == depth && item->is_entered && item->is_last == is_last)
      heap_add(&directories, item);
  }
  while (directories.count > 0)
    enter(self, heap_take_last(&directories)); /* which is the first of them */
  heap_release(&directories);
  choose_level(self);
}

static int gather_levels(int root, unsigned max_depth, struct heap *chosen,
                         struct listing_result *found) {
  struct levels self = {
      .root = root, .chosen = chosen, .level = {.compare = by_name}, .found = found};
  DIR *directory = directory_open_below(root, ".");
  if (directory == NULL)
    return -1;
  read_entries(&self, &(struct listing_item){.path = ""}, directory);
  choose_level(&self);
  for (int last = 0; last < 2; last++)
    for (unsigned depth = 1; depth < max_depth && depth <= WALK_DEPTH_MAX && !found->is_cut;
         depth++)
      read_level(&self, depth, last == 1);
  heap_release(&self.level);
  return 0;
}

/* --- the answer --- */

/* Since 1970; times before it and after the year 9999 are clamped. */
static int64_t milliseconds(struct timespec time) {
  const int64_t last_year = INT64_C(10000) * 366 * 86400;
  if (time.tv_sec < 0)
    return 0;
  return (time.tv_sec < last_year ? time.tv_sec : last_year) * 1000 + time.tv_nsec / 1000000;
}

static void add_object(struct buffer *content, const struct listing_item *item, const char *path,
                       bool with_sizes) {
  buffer_add_string(content, "{\"path\":");
  buffer_add_json(content, path, strlen(path));
  if (item->has_stat && with_sizes && !item->is_directory) {
    buffer_add_string(content, ",\"size_bytes\":");
    buffer_add_number(content, (unsigned long long)item->size);
  }
  if (item->has_stat) {
    char mtime[STEP_EVENT_TIMESTAMP_SIZE];
    step_event_timestamp(mtime, milliseconds(item->mtime));
    buffer_add_string(content, ",\"mtime\":\"");
    buffer_add_string(content, mtime);
    buffer_add_string(content, "\"");
  }
  buffer_add_string(content, ",\"is_directory\":");
  buffer_add_string(content, item->is_directory ? "true}" : "false}");
}

static void add_line(struct buffer *content, const struct listing_item *item, const char *path) {
  const char *name = strrchr(path, '/') + 1;
  char size[24] = "-", columns[40];
  if (item->has_stat && !item->is_directory)
    (void)snprintf(size, sizeof size, "%llu", (unsigned long long)item->size);
  (void)snprintf(columns, sizeof columns, "%-6s %8s  ", item->is_directory ? "dir" : "file", size);
  buffer_add_string(content, columns);
  printable_add(content, name, strlen(name));
  buffer_add_string(content, "\n");
}

/* Returns how many items there was room for. */
static size_t add_items(struct buffer *content, const struct heap *items, const char *root,
                        enum listing_form form) {
  bool is_json = form != LISTING_LINES;
  size_t length = strlen(root);
  char *path = memory_allocate(length + 1 + PATH_MAX);
  memcpy(path, root, length);
  if (path[length - 1] != '/')
    path[length++] = '/';
  buffer_add_string(content, is_json ? "[" : "");
  size_t i = 0;
  for (; i < items->count && content->length < LISTING_BYTES_MAX; i++) {
    const struct listing_item *item = items->items[i];
    memcpy(path + length, item->path, strlen(item->path) + 1);
    buffer_add_string(content, is_json && i > 0 ? "," : "");
    if (is_json)
      add_object(content, item, path, form == LISTING_JSON);
    else
      add_line(content, item, path);
  }
  buffer_add_string(content, is_json ? "]" : "");
  free(path);
  return i;
}

int listing_write(const char *path, unsigned max_depth, enum listing_order order,
                  enum listing_form form, struct buffer *content, struct listing_result *found,
                  struct error *error) {
  int fd = directory_open(path, error);
  if (fd < 0)
    return -1;
  *found = (struct listing_result){0};
  int result = -1;
  struct heap items = {.compare = comparisons[order]};
  char *root = path_full(path, error);
  if (root != NULL) {
    result = (order == LISTING_BY_NAME ? gather_levels : gather_all)(fd, max_depth, &items, found);
    if (result != 0)
      (void)directory_fail(error, path, errno);
  }
  if (result == 0) {
    heap_sort(&items);
    found->entries = add_items(content, &items, root, form);
    found->is_cut = found->is_cut || found->entries < items.count;
  }
  heap_release(&items);
  free(root);
  close(fd);
  return result;
}
