/* The longest payload, by what the control groups say of the memory. */
#include <limits.h>

#include "agent/payload_limit.h"
#include "tests/support/tree.h"
#include "tests/test.h"
#include "wire/step.h"

#define MIB (1024 * 1024)
#define V1 "sys/fs/cgroup/memory"
#define V2 "sys/fs/cgroup"

/* Makes the directories of a path; "a/b/c=text" is a file. */
static void write_below(const struct tree *tree, const char *entry) {
  char path[PATH_MAX];
  const char *text = strchr(entry, '=') + 1;
  for (const char *slash = entry; (slash = strchr(slash, '/')) != NULL && slash < text; slash++) {
    snprintf(path, sizeof path, "%.*s", (int)(slash - entry), entry);
    if (!tree_has(tree, path))
      tree_make_directory(tree, path, 0755);
  }
  snprintf(path, sizeof path, "%.*s", (int)(text - 1 - entry), entry);
  tree_write(tree, path, text, 0644);
}

TREE_TEST(is_a_share_of_the_least_limit) {
  static const struct {
    const char *promise;
    const char *groups;   /* of /proc/self/cgroup; NULL: there is no such file */
    const char *files[3]; /* with their text */
    size_t limit;
  } rows[] = {
      {"no control groups", NULL, {NULL}, STEP_PAYLOAD_MAX},
      {"version 2, seen from inside", "0::/\n", {V2 "/memory.max=67108864\n"}, 8 * MIB},
      {"no limit", "0::/\n", {V2 "/memory.max=max\n"}, STEP_PAYLOAD_MAX},
      {"a large one", "0::/\n", {V2 "/memory.max=4294967296\n"}, STEP_PAYLOAD_MAX},
      {"the smallest that matters", "0::/\n", {V2 "/memory.max=536870904\n"}, 64 * MIB - 1},
      {"seen from outside: its own group", "0::/pod/c\n", {V2 "/pod/c/memory.max=8388608\n"}, MIB},
      {"and those above",
       "0::/pod/c\n",
       {V2 "/pod/c/memory.max=max\n", V2 "/pod/memory.max=16777216\n", V2 "/memory.max=max\n"},
       2 * MIB},
      {"a path that is not there, as in a container",
       "0::/../pod/c\n",
       {V2 "/memory.max=8388608\n"},
       MIB},
      {"version 1, among others",
       "9:pids:/x\n4:memory:/docker/c\n0::/\n",
       {V1 "/memory.limit_in_bytes=67108864\n"},
       8 * MIB},
      {"version 1 without a limit",
       "4:memory:/\n",
       {V1 "/memory.limit_in_bytes=9223372036854771712\n"},
       STEP_PAYLOAD_MAX},
      {"another controller's number",
       "3:cpuset:/\n",
       {V1 "/memory.limit_in_bytes=8388608\n"},
       STEP_PAYLOAD_MAX},
      {"next to nothing", "0::/\n", {V2 "/memory.max=4096\n"}, PAYLOAD_LIMIT_MIN},
      {"a file without a number", "0::/\n", {V2 "/memory.max=\n"}, STEP_PAYLOAD_MAX},
      {"lines that are none", "\n:\n4:memory\n::\n", {V2 "/x=1"}, STEP_PAYLOAD_MAX},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char root[16], path[PATH_MAX];
    print_message("%s\n", rows[i].promise);
    snprintf(root, sizeof root, "root-%zu", i);
    tree_make_directory(tree, root, 0755);
    if (rows[i].groups != NULL) {
      snprintf(path, sizeof path, "%s/proc/self/cgroup=%s", root, rows[i].groups);
      write_below(tree, path);
    }
    for (size_t k = 0; k < 3 && rows[i].files[k] != NULL; k++) {
      snprintf(path, sizeof path, "%s/%s", root, rows[i].files[k]);
      write_below(tree, path);
    }
    assert_int_equal(payload_limit_read(tree_path(tree, root)), rows[i].limit);
  }
}
