#include <limits.h>
#include <sys/inotify.h>

#include <cjson/cJSON.h>

#include "agent/files/tree/listing.h"
#include "agent/files/tree/walk.h"
#include "tests/support/tree.h"
#include "tests/test.h"

struct query {
  unsigned max_depth;
  enum listing_order order;
  bool without_sizes;
};

/* Returns the JSON with a NUL, until the next call. */
static const char *list_with(const char *path, struct query query, struct levels_found *found) {
  static struct buffer content;
  struct error error = {.text = "none"};
  buffer_release(&content);
  assert_int_equal(listing_write(path, query.max_depth, query.order,
                                 query.without_sizes ? LISTING_JSON_WITHOUT_SIZES : LISTING_JSON,
                                 &content, found, &error),
                   0);
  assert_string_equal(error.text, "none");
  buffer_add(&content, "", 1);
  return content.bytes;
}

/* Likewise; the list is complete. */
static const char *list(const char *path, struct query query) {
  struct levels_found found = {.is_cut = true, .unread = 1};
  const char *json = list_with(path, query, &found);
  assert_int_equal(found.unread, 0);
  assert_false(found.is_cut);
  return json;
}

/* Returns the entries until the next call. */
static const cJSON *entries_of(const char *json) {
  static cJSON *entries;
  cJSON_Delete(entries);
  entries = cJSON_Parse(json);
  assert_true(cJSON_IsArray(entries));
  return entries;
}

static const char *path_of(const cJSON *entry) {
  return cJSON_GetObjectItemCaseSensitive(entry, "path")->valuestring;
}

/* Writes each entry's path below the tree, with "/" for a directory and ":size" if there is one. */
static void describe(char *out, size_t size, const struct tree *tree, const cJSON *entries) {
  const cJSON *entry;
  size_t at = 0;
  out[0] = '\0';
  cJSON_ArrayForEach(entry, entries) {
    const char *path = path_of(entry);
    const cJSON *bytes = cJSON_GetObjectItemCaseSensitive(entry, "size_bytes");
    bool is_directory = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(entry, "is_directory"));
    assert_memory_equal(path, tree->path, strlen(tree->path));
    assert_int_equal(path[strlen(tree->path)], '/');
    char number[32] = "";
    if (bytes != NULL)
      (void)snprintf(number, sizeof number, ":%d", bytes->valueint);
    at += (size_t)snprintf(out + at, size - at, "%s%s%s%s", at > 0 ? " " : "",
                           path + strlen(tree->path) + 1, is_directory ? "/" : "", number);
    assert_in_range(at, 0, size - 1);
  }
}

static void expect(const struct tree *tree, struct query query, const char *expected) {
  char text[4096];
  describe(text, sizeof text, tree, entries_of(list(tree->path, query)));
  assert_string_equal(text, expected);
}

static void set_time(const struct tree *tree, const char *name, int64_t seconds, long nanoseconds) {
  const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                    {.tv_sec = (time_t)seconds, .tv_nsec = nanoseconds}};
  assert_int_equal(utimensat(tree->fd, name, times, AT_SYMLINK_NOFOLLOW), 0);
}

TREE_TEST(all_levels_are_ordered_together) {
  static const char *const names[] = {"a.c", "a/x", "a/x.c", "B", "\xC3\xA9", ".h", "a/-"};
  static const struct query by_name = {.max_depth = 9};
  tree_make(tree, "a/ a/x.d/ a/x.d/empty");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    tree_write(tree, names[i], i % 2 == 0 ? "12" : "1", 0600);
    set_time(tree, names[i], 1000 - (int64_t)(i / 3), 0);
  }
  set_time(tree, "a/x.d/empty", 1000, 1); /* newer by a nanosecond */
  set_time(tree, "a/x.d", 5000, 0);
  set_time(tree, "a", 1, 0);
  /* By path, "a.c" comes between "a" and what is in it. */
  expect(tree, by_name, ".h:1 B:1 a/ a.c:2 a/-:2 a/x:1 a/x.c:2 a/x.d/ a/x.d/empty:0 \xC3\xA9:2");
  expect(tree, (struct query){.max_depth = 9, .order = LISTING_BY_SIZE},
         "a.c:2 a/-:2 a/x.c:2 \xC3\xA9:2 .h:1 B:1 a/x:1 a/ a/x.d/ a/x.d/empty:0");
  expect(tree, (struct query){.max_depth = 9, .order = LISTING_BY_MTIME},
         "a/x.d/ a/x.d/empty:0 a.c:2 a/x:1 a/x.c:2 .h:1 B:1 \xC3\xA9:2 a/-:2 a/");
  /* Sizes decide even if they are not shown. */
  expect(tree, (struct query){.max_depth = 1, .order = LISTING_BY_SIZE, .without_sizes = true},
         "a.c \xC3\xA9 .h B a/");
}

TREE_TEST(a_link_has_the_values_of_its_target) {
  tree_make(tree, "a/ a/x=1234567 a/up>.. to-a>a to-x>a/x to-nothing>nothing loop>loop fifo|");
  expect(tree, (struct query){.max_depth = 9},
         "a/ a/up/ a/x:7 fifo:0 loop:4 to-a/ to-nothing:7 to-x:7");
  set_time(tree, "loop", 5, 0);
  set_time(tree, "to-x", 4, 0); /* the link's own time, which does not count */
  set_time(tree, "a/x", 6, 0);
  const char *json = list(tree->path, (struct query){.max_depth = 1});
  assert_non_null(
      strstr(json, quoted("/loop','size_bytes':4,'mtime':'1970-01-01T00:00:05.000+00:00'")));
  assert_non_null(
      strstr(json, quoted("/to-x','size_bytes':7,'mtime':'1970-01-01T00:00:06.000+00:00'")));
}

/* Expects a cut list by name, in the form of `describe`. */
static void expect_cut(const struct tree *tree, unsigned max_depth, size_t entries,
                       const char *begin) {
  static char text[64 * 1024];
  struct levels_found found;
  const char *json = list_with(tree->path, (struct query){.max_depth = max_depth}, &found);
  describe(text, sizeof text, tree, entries_of(json));
  assert_memory_equal(text, begin, strlen(begin));
  assert_int_equal(found.entries, entries);
  assert_true(found.is_cut);
  assert_int_equal(found.unread, 0); /* directories that cannot be chosen were not read */
}

static void make_many(const struct tree *tree, const char *directory, int count) {
  tree_make(tree, formatted("%s/", directory));
  for (int i = 0; i < count; i++)
    tree_make(tree, formatted("%s/%04d", directory, i));
}

/* The upper levels come first, each in the order of paths. In the order of the answer, the
   content of `.git` and `deep` would come first. */
TREE_TEST(a_cut_list_has_the_upper_levels) {
  tree_make(tree, ".git/ deep/ deep/er/ z/ z/a.sln");
  make_many(tree, ".git/objects", 1500);
  make_many(tree, "deep/er/most", 1500);
  tree_make_chain(tree, "chain", WALK_DEPTH_MAX + 2);
  make_many(tree, "many", 985);
  /* 5, then 985 of `many` with 3 others, then 2, then the first 5 of the fourth level. */
  expect_cut(tree, 12, LEVELS_MAX,
             ".git/ chain/ chain/chain/ chain/chain/chain/ chain/chain/chain/chain/ deep/ deep/er/ "
             "deep/er/most/ deep/er/most/0000:0 deep/er/most/0001:0 deep/er/most/0002:0 "
             "deep/er/most/0003:0 many/ ");
  make_many(tree, "more", 100);
  char events[512];
  int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  assert_true(inotify_add_watch(watch, tree_path(tree, "z"), IN_OPEN) >= 0);
  assert_true(inotify_add_watch(watch, tree_path(tree, "deep/er"), IN_OPEN) >= 0);
  expect_cut(tree, 12, LEVELS_MAX, ".git/ chain/ chain/chain/ deep/ deep/er/ many/ many/0000:0 ");
  assert_int_equal(read(watch, events, sizeof events), -1); /* neither was opened */
  close(watch);
}

/* The content of a directory that grep leaves out comes last, on any level. */
TREE_TEST(a_cut_list_has_generated_files_last) {
  tree_make(tree,
            "src/ src/a/ src/a/b/ src/a/b/c/ src/a/b/c/main.c src/bin/ src/bin/x/ to-src>src");
  make_many(tree, ".git", 600);
  make_many(tree, "node_modules", 600);
  tree_make(tree, "src/bin/y");
  /* The 9 that are not in one of them, then 600 and 391 of the second level. */
  expect_cut(tree, 9, LEVELS_MAX, ".git/ .git/0000:0 .git/0001:0 ");
  struct levels_found found;
  const char *json = list_with(tree->path, (struct query){.max_depth = 9}, &found);
  assert_non_null(strstr(json, "/src/a/b/c/main.c"));
  assert_non_null(strstr(json, "/src/bin\""));
  assert_non_null(strstr(json, "/node_modules/0390"));
  assert_null(strstr(json, "/node_modules/0391"));
  assert_null(strstr(json, "/src/bin/x"));
  /* By size and by time, the first of all levels are listed. */
  tree_write(tree, "node_modules/0599", "12", 0600);
  json = list_with(tree->path, (struct query){.max_depth = 9, .order = LISTING_BY_SIZE}, &found);
  assert_ptr_equal(strstr(json, "/node_modules/0599"), strstr(json, "/node_modules/"));
}

/* One more entry, in the last directory that is read, cuts the list. */
TREE_TEST(one_entry_too_many_cuts_the_list) {
  tree_make(tree, "a/ a/b/ .git/ .git/x/");
  make_many(tree, "a/b/c", LEVELS_MAX - 6);
  struct levels_found found;
  (void)list_with(tree->path, (struct query){.max_depth = 9}, &found);
  assert_int_equal(found.entries, LEVELS_MAX - 1);
  tree_make(tree, ".git/x/y");
  (void)list_with(tree->path, (struct query){.max_depth = 9}, &found);
  assert_int_equal(found.entries, LEVELS_MAX);
  assert_false(found.is_cut);
  tree_make(tree, ".git/x/z");
  (void)list_with(tree->path, (struct query){.max_depth = 9}, &found);
  assert_int_equal(found.entries, LEVELS_MAX);
  assert_true(found.is_cut);
  tree_make(tree, "a/b/c/z"); /* takes the place of .git/x/y */
  const char *json = list_with(tree->path, (struct query){.max_depth = 9}, &found);
  assert_null(strstr(json, "/.git/x/"));
  assert_true(found.is_cut);
}

/* Files whose times are in an order of their own, and whose sizes are 0 and 1. */
static void make_files(const struct tree *tree, int count) {
  for (int i = 0; i < count; i++) {
    const char *name = formatted("%04d", i);
    tree_write(tree, name, i % 2 == 0 ? "" : "1", 0600);
    set_time(tree, name, i * 7919 % count, 0);
  }
}

/* A thousand paths, of which each takes 23 KiB when it is escaped. */
TREE_TEST(a_list_ends_at_its_maximum_size) {
  char name[250];
  memset(name, 1, sizeof name - 1);
  name[sizeof name - 1] = '\0';
  tree_make_directory(tree, name, 0700);
  make_files(tree, LEVELS_MAX - 1);
  char path[PATH_MAX];
  int length = snprintf(path, sizeof path, "%s", tree->path);
  while ((size_t)length + sizeof name + 8 < sizeof path)
    length += snprintf(path + length, sizeof path - (size_t)length, "/%s/..", name);
  struct levels_found found;
  const char *json = list_with(path, (struct query){.max_depth = 1}, &found);
  assert_in_range(strlen(json), LISTING_BYTES_MAX, LISTING_BYTES_MAX + 32 * 1024);
  assert_int_equal(cJSON_GetArraySize(entries_of(json)), found.entries);
  assert_in_range(found.entries, 1, LEVELS_MAX - 1);
  assert_true(found.is_cut);
}

TREE_TEST(an_unreadable_directory_is_an_entry) {
  assert_int_equal(fchmod(tree->fd, 0755), 0);
  tree_make_directory(tree, "closed", 0700);
  tree_make_directory(tree, "names-only", 0744);
  tree_make_directory(tree, "open", 0755);
  tree_write(tree, "closed/x", "1", 0600);
  tree_make_directory(tree, "names-only/d", 0755);
  tree_write(tree, "names-only/x", "1", 0600);
  tree_write(tree, "open/x", "1", 0000);
  assert_int_equal(seteuid(65534), 0);
  struct levels_found found;
  const char *json = list_with(tree->path, (struct query){.max_depth = 3}, &found);
  assert_int_equal(seteuid(0), 0);
  assert_int_equal(found.unread, 2); /* closed, names-only/d */
  char text[512];
  describe(text, sizeof text, tree, entries_of(json));
  assert_string_equal(text, "closed/ names-only/ names-only/d/ names-only/x open/ open/x:1");
  assert_non_null(strstr(json, quoted("/names-only/x','is_directory':false}")));
}
