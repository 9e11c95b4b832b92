#include "agent/files/tree/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/directory.h"
#include "agent/files/access/full_path.h"
#include "agent/files/tree/heap.h"
#include "agent/files/tree/walk.h"
#include "base/memory.h"
#include "wire/step_event.h"

struct listing_item {
  const char *path; /* from the root */
  bool is_directory;
  bool has_stat; /* size and mtime are known */
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
static bool read_stat(struct listing_item *item, const struct walk_entry *entry) {
  struct stat file;
  item->has_stat = fstatat(entry->parent, entry->name, &file, 0) == 0 ||
                   fstatat(entry->parent, entry->name, &file, AT_SYMLINK_NOFOLLOW) == 0;
  if (!item->has_stat) {
    item->is_directory = entry->kind == WALK_DIRECTORY;
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

/* Collects the first entries of all that is below the root. Returns whether there are more. */
static bool gather(struct walk *walk, unsigned max_depth, enum listing_order order,
                   struct heap *heap) {
  bool more = false;
  struct walk_entry entry;
  while (walk_next(walk, &entry)) {
    if ((unsigned)entry.depth + 1 >= max_depth || entry.length >= PATH_MAX)
      walk_skip(walk);
    if (entry.length >= PATH_MAX)
      continue;
    struct listing_item item = {.path = entry.path};
    bool is_full = heap->count == LISTING_MAX;
    if (order != LISTING_BY_NAME || !is_full || by_name(&item, heap->items[0]) < 0) {
      if (!read_stat(&item, &entry))
        continue;
      if (!is_full || heap->compare(&item, heap->items[0]) < 0)
        heap_add(heap, copy_item(&item, entry.length));
    }
    more = more || is_full;
    if (heap->count > LISTING_MAX)
      free(heap_take_last(heap));
  }
  return more;
}

/* Since 1970; times before it and after the year 9999 are clamped. */
static int64_t milliseconds(struct timespec time) {
  const int64_t last_year = INT64_C(10000) * 366 * 86400;
  if (time.tv_sec < 0)
    return 0;
  return (time.tv_sec < last_year ? time.tv_sec : last_year) * 1000 + time.tv_nsec / 1000000;
}

static void add_item(struct buffer *content, const struct listing_item *item, const char *path,
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

/* Returns how many items there was room for. */
static size_t add_items(struct buffer *content, const struct heap *items, const char *root,
                        bool with_sizes) {
  size_t length = strlen(root);
  char *path = memory_allocate(length + 1 + PATH_MAX);
  memcpy(path, root, length);
  if (path[length - 1] != '/')
    path[length++] = '/';
  buffer_add_string(content, "[");
  size_t i = 0;
  for (; i < items->count && content->length < LISTING_BYTES_MAX; i++) {
    const struct listing_item *item = items->items[i];
    memcpy(path + length, item->path, strlen(item->path) + 1);
    if (i > 0)
      buffer_add_string(content, ",");
    add_item(content, item, path, with_sizes);
  }
  buffer_add_string(content, "]");
  free(path);
  return i;
}

int listing_write(const char *path, unsigned max_depth, enum listing_order order, bool with_sizes,
                  struct buffer *content, struct listing_result *found, struct error *error) {
  int fd = directory_open(path, error);
  if (fd < 0)
    return -1;
  int result = -1;
  struct heap items = {.compare = comparisons[order]};
  char *root = full_path_new(path, error);
  if (root != NULL) {
    struct walk *walk = walk_new(fd, NULL, false);
    if (walk == NULL) {
      (void)error_set(error, "cannot read directory (%s): %s", strerror(errno), path);
    } else {
      bool more = gather(walk, max_depth, order, &items);
      heap_sort(&items);
      found->entries = add_items(content, &items, root, with_sizes);
      found->is_cut = more || found->entries < items.count;
      found->unread = walk_unread(walk);
      walk_free(walk);
      result = 0;
    }
  }
  heap_release(&items);
  free(root);
  close(fd);
  return result;
}
