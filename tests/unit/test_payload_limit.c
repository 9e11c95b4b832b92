/* The longest payload, by what the control group and the process' own limits say of the memory. */
#include <limits.h>
#include <sys/resource.h>

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

TREE_TEST(is_a_share_of_the_groups_limit) {
  static const struct {
    const char *promise;
    const char *file; /* with its text; NULL: none */
    size_t limit;
  } rows[] = {
      {"no control group", NULL, STEP_PAYLOAD_MAX},
      {"version 2", V2 "/memory.max=67108864\n", 8 * MIB},
      {"no limit", V2 "/memory.max=max\n", STEP_PAYLOAD_MAX},
      {"a large one", V2 "/memory.max=4294967296\n", STEP_PAYLOAD_MAX},
      {"the smallest that matters", V2 "/memory.max=536870904\n", 64 * MIB - 1},
      {"version 1", V1 "/memory.limit_in_bytes=67108864\n", 8 * MIB},
      {"version 1 without a limit", V1 "/memory.limit_in_bytes=9223372036854771712\n",
       STEP_PAYLOAD_MAX},
      {"next to nothing", V2 "/memory.max=4096\n", PAYLOAD_LIMIT_MIN},
      {"a file without a number", V2 "/memory.max=\n", STEP_PAYLOAD_MAX},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char root[16], path[PATH_MAX];
    print_message("%s\n", rows[i].promise);
    snprintf(root, sizeof root, "root-%zu", i);
    tree_make_directory(tree, root, 0755);
    if (rows[i].file != NULL) {
      snprintf(path, sizeof path, "%s/%s", root, rows[i].file);
      write_below(tree, path);
    }
    assert_int_equal(payload_limit_read(tree_path(tree, root)), rows[i].limit);
  }
}

/* The least of them counts; while it is set nothing is allocated. */
TREE_TEST(so_is_that_of_the_process) {
  static const __rlimit_resource_t resources[] = {RLIMIT_AS, RLIMIT_DATA};
  tree_make_directory(tree, "root", 0755);
  write_below(tree, "root/" V2 "/memory.max=67108864\n");
  const char *without = tree_path(tree, "none"), *with = tree_path(tree, "root");
  for (size_t i = 0; i < sizeof resources / sizeof *resources; i++) {
    struct rlimit before;
    assert_int_equal(getrlimit(resources[i], &before), 0);
    struct rlimit limit = {.rlim_cur = 48 * MIB, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(resources[i], &limit), 0);
    size_t alone = payload_limit_read(without), less = payload_limit_read(with);
    limit.rlim_cur = 128 * MIB;
    int result = setrlimit(resources[i], &limit);
    size_t more = payload_limit_read(with);
    assert_int_equal(setrlimit(resources[i], &before), 0);
    assert_int_equal(result, 0);
    assert_int_equal(alone, 6 * MIB);
    assert_int_equal(less, 6 * MIB);
    assert_int_equal(more, 8 * MIB);
  }
}
