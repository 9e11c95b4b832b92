#include "agent/files/tree/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/path.h"
#include "agent/files/tree/walk.h"
#include "base/memory.h"
#include "base/printable.h"
#include "wire/step_report.h"

static int by_name(const struct level_entry *one, const struct level_entry *other) {
  return strcmp(one->path, other->path);
}

static int by_size(const struct level_entry *one, const struct level_entry *other) {
  return one->size != other->size ? (one->size < other->size ? 1 : -1) : by_name(one, other);
}

static int by_mtime(const struct level_entry *one, const struct level_entry *other) {
  if (one->mtime.tv_sec != other->mtime.tv_sec)
    return one->mtime.tv_sec < other->mtime.tv_sec ? 1 : -1;
  if (one->mtime.tv_nsec != other->mtime.tv_nsec)
    return one->mtime.tv_nsec < other->mtime.tv_nsec ? 1 : -1;
  return by_name(one, other);
}

static int (*const comparisons[])(const struct level_entry *, const struct level_entry *) = {
    [LISTING_BY_NAME] = by_name, [LISTING_BY_SIZE] = by_size, [LISTING_BY_MTIME] = by_mtime};

/* Returns false if the entry has vanished. */
static bool read_stat(struct level_entry *entry, const struct walk_entry *found) {
  struct stat file;
  entry->has_stat = fstatat(found->parent, found->name, &file, 0) == 0 ||
                    fstatat(found->parent, found->name, &file, AT_SYMLINK_NOFOLLOW) == 0;
  if (!entry->has_stat) {
    entry->is_directory = found->type == DT_DIR;
    return errno != ENOENT;
  }
  entry->is_directory = S_ISDIR(file.st_mode);
  entry->size = entry->is_directory ? 0 : file.st_size;
  entry->mtime = file.st_mtim;
  return true;
}

/* Looks at all entries, for the orders by size and by time. */
static int gather_all(struct levels *chosen, const char *path, unsigned max_depth,
                      struct error *error) {
  struct walk *walk = walk_new(path, false, error);
  if (walk == NULL)
    return -1;
  struct walk_entry found;
  while (walk_next(walk, &found)) {
    if ((unsigned)found.depth + 1 >= max_depth || found.length >= PATH_MAX)
      walk_skip(walk);
    struct level_entry entry = {.path = found.path};
    if (found.length < PATH_MAX && read_stat(&entry, &found) && levels_accept(chosen, &entry))
      levels_add(chosen, &entry);
  }
  const char *first;
  chosen->found->unread = walk_unread(walk, &first);
  walk_free(walk);
  return 0;
}

static void offer(struct levels *chosen, const struct walk_entry *found) {
  struct level_entry entry = {.path = found->path};
  if (found->length < PATH_MAX && levels_accept(chosen, &entry) && read_stat(&entry, found))
    levels_add(chosen, &entry);
}

/* Returns milliseconds since 1970, from 1970 to somewhat above the year 9999. */
static int64_t milliseconds(struct timespec time) {
  const int64_t last_year = INT64_C(10000) * 366 * 86400;
  if (time.tv_sec < 0)
    return 0;
  return (time.tv_sec < last_year ? time.tv_sec : last_year) * 1000 + time.tv_nsec / 1000000;
}

/* The mode is that of the entry itself, also if it is a link. */
static void add_mode(struct buffer *content, const char *path) {
  char target[PATH_MAX];
  struct stat file;
  if (lstat(path, &file) != 0)
    return;
  buffer_add_format(content, ",\"mode\":\"%04o\"", (unsigned)file.st_mode & 07777);
  const ssize_t length = S_ISLNK(file.st_mode) ? readlink(path, target, sizeof target) : -1;
  if (length >= 0) {
    buffer_add_string(content, ",\"link\":");
    buffer_add_json(content, target, (size_t)length);
  }
}

static void add_object(struct buffer *content, const struct level_entry *entry, const char *path,
                       enum listing_form form) {
  buffer_add_string(content, "{\"path\":");
  buffer_add_json(content, path, strlen(path));
  if (entry->has_stat && form != LISTING_JSON_WITHOUT_SIZES && !entry->is_directory)
    buffer_add_format(content, ",\"size_bytes\":%llu", (unsigned long long)entry->size);
  if (entry->has_stat) {
    char mtime[STEP_EVENT_TIMESTAMP_SIZE];
    step_event_timestamp(mtime, milliseconds(entry->mtime));
    buffer_add_format(content, ",\"mtime\":\"%s\"", mtime);
  }
  if (form == LISTING_JSON_WITH_MODES)
    add_mode(content, path);
  buffer_add_string(content,
                    entry->is_directory ? ",\"is_directory\":true}" : ",\"is_directory\":false}");
}

static void add_line(struct buffer *content, const struct level_entry *entry) {
  char size[24] = "-";
  if (entry->has_stat && !entry->is_directory)
    (void)snprintf(size, sizeof size, "%llu", (unsigned long long)entry->size);
  buffer_add_format(content, "%-6s %8s  ", entry->is_directory ? "dir" : "file", size);
  const char *slash = strrchr(entry->path, '/');
  const char *name = slash != NULL ? slash + 1 : entry->path;
  printable_add(content, name, strlen(name));
  buffer_add_string(content, "\n");
}

/* Adds the chosen entries, up to LISTING_BYTES_MAX. */
static void add_items(struct buffer *content, struct levels *chosen, const char *root,
                      enum listing_form form) {
  bool is_json = form != LISTING_LINES;
  size_t length = strlen(root);
  char *path = memory_allocate(length + 1 + PATH_MAX);
  memcpy(path, root, length);
  if (path[length - 1] != '/')
    path[length++] = '/';
  size_t i = 0;
  for (; i < chosen->count && content->length < LISTING_BYTES_MAX; i++) {
    const struct level_entry *entry = chosen->entries[i];
    memcpy(path + length, entry->path, strlen(entry->path) + 1);
    buffer_add_string(content, is_json && chosen->found->entries > 0 ? "," : "");
    chosen->found->entries++;
    if (is_json)
      add_object(content, entry, path, form);
    else
      add_line(content, entry);
  }
  chosen->found->is_cut |= i < chosen->count;
  free(path);
}

/* Reads the first entries, or those after the last ones that were read, and adds them. */
static int add_page(struct levels *chosen, const char *path, unsigned max_depth,
                    enum listing_order order, enum listing_form form, struct buffer *content,
                    struct error *error) {
  int (*gather)(struct levels *, const char *, unsigned, struct error *) =
      order == LISTING_BY_NAME ? levels_read : gather_all;
  chosen->found->is_cut = false;
  if (gather(chosen, path, max_depth, error) != 0)
    return -1;
  char *root = path_full(path, error);
  if (root == NULL)
    return -1;
  levels_sort(chosen);
  add_items(content, chosen, root, form);
  free(root);
  return 0;
}

int listing_write(const char *path, unsigned max_depth, enum listing_order order,
                  enum listing_form form, struct buffer *content, struct levels_found *found,
                  struct error *error) {
  *found = (struct levels_found){.entries = 0};
  struct levels chosen = {.compare = comparisons[order], .offer = offer, .found = found};
  const bool is_json = form != LISTING_LINES, wants_all = max_depth == 0;
  const size_t begin = content->length;
  char *last = NULL;
  int result;
  buffer_add_string(content, is_json ? "[" : "");
  while ((result = add_page(&chosen, path, wants_all ? 1 : max_depth, order, form, content,
                            error)) == 0 &&
         wants_all && found->is_cut && content->length < LISTING_BYTES_MAX) {
    const char *name = chosen.entries[chosen.count - 1]->path;
    free(last);
    chosen.after = last = memory_copy(name, strlen(name));
    levels_release(&chosen);
  }
  buffer_add_string(content, is_json ? "]" : "");
  if (result != 0)
    content->length = begin;
  levels_release(&chosen);
  free(last);
  return result;
}
