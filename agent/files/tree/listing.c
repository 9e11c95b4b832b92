#include "agent/files/tree/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/files/access/directory.h"
#include "agent/files/access/path.h"
#include "agent/files/tree/walk.h"
#include "base/memory.h"
#include "base/printable.h"
#include "wire/step_report.h"

/* The text of an item is the path from the root. */
struct listing_item {
  struct level_entry entry; /* by size and by time, only its text and name are set */
  bool is_directory;
  bool has_stat; /* size and mtime are known */
  int64_t size;
  struct timespec mtime;
};

static int by_name(const void *one, const void *other) {
  const struct listing_item *a = one;
  const struct listing_item *b = other;
  return strcmp(a->entry.text, b->entry.text);
}

static int by_size(const void *one, const void *other) {
  const struct listing_item *a = one;
  const struct listing_item *b = other;
  return a->size != b->size ? (a->size < b->size ? 1 : -1) : by_name(one, other);
}

static int by_mtime(const void *one, const void *other) {
  const struct listing_item *a = one;
  const struct listing_item *b = other;
  if (a->mtime.tv_sec != b->mtime.tv_sec)
    return a->mtime.tv_sec < b->mtime.tv_sec ? 1 : -1;
  if (a->mtime.tv_nsec != b->mtime.tv_nsec)
    return a->mtime.tv_nsec < b->mtime.tv_nsec ? 1 : -1;
  return by_name(one, other);
}

static int (*const comparisons[])(const void *one, const void *other) = {
    [LISTING_BY_NAME] = by_name, [LISTING_BY_SIZE] = by_size, [LISTING_BY_MTIME] = by_mtime};

/* Returns false if the entry has vanished. */
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

/* Looks at all entries, for the orders by size and by time. */
static int gather_all(struct levels *chosen, const char *path, unsigned max_depth,
                      struct error *error) {
  struct walk *walk = walk_new(path, false, error);
  if (walk == NULL)
    return -1;
  struct walk_entry entry;
  while (walk_next(walk, &entry)) {
    if ((unsigned)entry.depth + 1 >= max_depth || entry.length >= PATH_MAX)
      walk_skip(walk);
    struct listing_item item = {.entry = {.text = entry.path, .name = entry.name}};
    if (entry.length < PATH_MAX &&
        read_stat(&item, entry.parent, entry.name, entry.type == DT_DIR) &&
        levels_accepts(chosen, &item))
      levels_add(chosen, &item);
  }
  const char *first;
  chosen->found->unread = walk_unread(walk, &first);
  walk_free(walk);
  return 0;
}

static void offer(struct levels *levels, const struct level_entry *entry, int parent,
                  const struct directory_entry *found) {
  char path[PATH_MAX];
  const struct level_entry *above = entry->parent;
  int length = snprintf(path, sizeof path, "%s%s%s", above != NULL ? above->text : "",
                        above != NULL ? "/" : "", found->name);
  if (length < 0 || (size_t)length >= sizeof path)
    return;
  struct listing_item item = {.entry = *entry};
  item.entry.text = path;
  item.entry.name = path + length - strlen(found->name);
  item.entry.is_last |= entry->is_entered && walk_is_excluded(found->name);
  if (levels_accepts(levels, &item) && read_stat(&item, parent, found->name, entry->is_entered))
    levels_add(levels, &item);
}

static bool is_before(const struct level_entry *directory, const struct level_entry *item) {
  size_t length = strlen(directory->text);
  int order = strncmp(directory->text, item->text, length);
  return order < 0 || (order == 0 && (unsigned char)item->text[length] >= '/');
}

/* Returns milliseconds since 1970, from 1970 to somewhat above the year 9999. */
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
  if (item->has_stat && with_sizes && !item->is_directory)
    buffer_add_format(content, ",\"size_bytes\":%llu", (unsigned long long)item->size);
  if (item->has_stat) {
    char mtime[STEP_EVENT_TIMESTAMP_SIZE];
    step_event_timestamp(mtime, milliseconds(item->mtime));
    buffer_add_format(content, ",\"mtime\":\"%s\"", mtime);
  }
  buffer_add_string(content,
                    item->is_directory ? ",\"is_directory\":true}" : ",\"is_directory\":false}");
}

static void add_line(struct buffer *content, const struct listing_item *item) {
  char size[24] = "-";
  if (item->has_stat && !item->is_directory)
    (void)snprintf(size, sizeof size, "%llu", (unsigned long long)item->size);
  buffer_add_format(content, "%-6s %8s  ", item->is_directory ? "dir" : "file", size);
  printable_add(content, item->entry.name, strlen(item->entry.name));
  buffer_add_string(content, "\n");
}

static size_t add_items(struct buffer *content, const struct levels *chosen, const char *root,
                        enum listing_form form) {
  bool is_json = form != LISTING_LINES;
  size_t length = strlen(root);
  char *path = memory_allocate(length + 1 + PATH_MAX);
  memcpy(path, root, length);
  if (path[length - 1] != '/')
    path[length++] = '/';
  buffer_add_string(content, is_json ? "[" : "");
  size_t i = 0;
  for (; i < chosen->count && content->length < LISTING_BYTES_MAX; i++) {
    const struct listing_item *item = chosen->items[i];
    memcpy(path + length, item->entry.text, strlen(item->entry.text) + 1);
    buffer_add_string(content, is_json && i > 0 ? "," : "");
    if (is_json)
      add_object(content, item, path, form == LISTING_JSON);
    else
      add_line(content, item);
  }
  buffer_add_string(content, is_json ? "]" : "");
  free(path);
  return i;
}

int listing_write(const char *path, unsigned max_depth, enum listing_order order,
                  enum listing_form form, struct buffer *content, struct levels_found *found,
                  struct error *error) {
  *found = (struct levels_found){.entries = 0};
  struct levels chosen = {.size = sizeof(struct listing_item),
                          .compare = comparisons[order],
                          .is_before = is_before,
                          .offer = offer,
                          .found = found};
  int (*gather)(struct levels *, const char *, unsigned, struct error *) =
      order == LISTING_BY_NAME ? levels_read : gather_all;
  if (gather(&chosen, path, max_depth, error) != 0)
    return -1;
  char *root = path_full(path, error);
  if (root != NULL) {
    levels_sort(&chosen);
    found->entries = add_items(content, &chosen, root, form);
    found->is_cut |= found->entries < chosen.count;
  }
  levels_release(&chosen);
  free(root);
  return root != NULL ? 0 : -1;
}
