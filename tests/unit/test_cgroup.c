/* Control groups, in files like those of kernels and container runtimes. */
#include <limits.h>

#include "base/cgroup.h"
#include "tests/support/tree.h"
#include "tests/test.h"

#define MIB ((int64_t)1024 * 1024)

#define CGROUPS "proc/self/cgroup="
#define V2 "sys/fs/cgroup/"
#define V1 "sys/fs/cgroup/memory/"
/* Writes "a/b/c=text": a file and the directories above it. */
static void write_file(const struct tree *tree, const char *entry) {
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

static void open_with(struct cgroup *self, const struct tree *tree, const char *const *files) {
  for (; *files != NULL; files++)
    write_file(tree, *files);
  cgroup_open(self, tree->path);
}

#define OPEN(GROUP, ...)                                                                           \
  struct cgroup GROUP;                                                                             \
  open_with(&(GROUP), tree, (const char *const[]){__VA_ARGS__, NULL})

TREE_TEST(without_cgroups_all_figures_are_unknown) {
  struct cgroup group;
  cgroup_open(&group, tree->path);
  assert_int_equal(group.version, 0);
  assert_int_equal(cgroup_memory_limit(&group), -1);
  assert_int_equal(cgroup_memory(&group), -1);
  assert_int_equal(cgroup_memory_peak(&group), -1);
  assert_int_equal(cgroup_memory_unreclaimable(&group), -1);
  assert_int_equal(cgroup_memory_shmem(&group), -1);
  assert_int_equal(cgroup_oom_kills(&group), -1);
  assert_int_equal(cgroup_tasks(&group), -1);
  assert_int_equal(cgroup_cpu_us(&group), -1);
  assert_false(cgroup_oom_kills_group(&group));
}

TREE_TEST(cgroup_v2_is_read_in_a_container) {
  OPEN(group, CGROUPS "0::/\n", V2 "memory.max=67108864\n", V2 "memory.current=50000000\n",
       V2 "memory.peak=60000000\n", V2 "memory.oom.group=1\n",
       V2 "memory.events=low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n",
       V2 "memory.stat=anon 99999\nfile 900000\nkernel_stack 200\npagetables 30\nshmem 99999\n"
          "inactive_anon 4\nactive_anon 1000\nunevictable 100000\nslab_reclaimable "
          "7000\nslab_unreclaimable 500000\n",
       V2 "cpu.stat=usage_usec 1234567\nuser_usec 1\n", V2 "pids.current=17\n");
  assert_int_equal(group.version, 2);
  assert_int_equal(cgroup_memory_limit(&group), 64 * MIB);
  assert_int_equal(cgroup_memory(&group), 50000000);
  assert_int_equal(cgroup_memory_peak(&group), 60000000);
  assert_int_equal(cgroup_memory_unreclaimable(&group), 601234);
  assert_int_equal(cgroup_memory_shmem(&group), 99999);
  assert_int_equal(cgroup_oom_kills(&group), 2);
  assert_int_equal(cgroup_cpu_us(&group), 1234567);
  assert_int_equal(cgroup_tasks(&group), 17);
  assert_true(cgroup_oom_kills_group(&group));
  tree_write(tree, V2 "memory.events", "oom_kill 5\n", 0644);
  assert_int_equal(cgroup_oom_kills(&group), 5);
}

TREE_TEST(a_nested_cgroup_v2_has_the_limits_of_its_parents) {
  OPEN(group, CGROUPS "0::/job/build\n", V2 "job/build/memory.stat=anon 1\n",
       V2 "job/build/memory.max=max\n", V2 "job/memory.max=33554432\n", V2 "memory.max=67108864\n");
  assert_int_equal(cgroup_memory_limit(&group), 32 * MIB);
  assert_false(cgroup_oom_kills_group(&group));
}

/* Without a cgroup namespace the path is the host's, and only the container's group is mounted. */
TREE_TEST(a_container_may_see_the_path_of_the_host) {
  OPEN(group, CGROUPS "0::/kubepods/pod1/abc\n", V2 "memory.stat=active_anon 77\n");
  assert_int_equal(cgroup_memory_unreclaimable(&group), 77);
  tree_write(tree, "proc/self/cgroup", "0::/../../elsewhere\n", 0644);
  cgroup_open(&group, tree->path);
  assert_int_equal(cgroup_memory_unreclaimable(&group), 77);
}

TREE_TEST(cgroup_v1_is_read_in_a_container) {
  OPEN(group,
       CGROUPS "9:name=systemd:/\n8:pids:/docker/abc\n4:memory:/docker/abc\n"
               "2:cpu,cpuacct:/docker/abc\n0::/\n",
       V1 "memory.limit_in_bytes=67108864\n", V1 "memory.usage_in_bytes=1000000\n",
       V1 "memory.max_usage_in_bytes=2000000\n",
       V1 "memory.oom_control=oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
       V1 "memory.stat=cache 5\ninactive_file 4\ntotal_rss 70\ntotal_inactive_file 300000\n"
          "total_active_file 200000\n",
       "sys/fs/cgroup/cpuacct/cpuacct.usage=5000000\n", "sys/fs/cgroup/pids/pids.current=9\n");
  assert_int_equal(group.version, 1);
  assert_int_equal(cgroup_memory_limit(&group), 64 * MIB);
  assert_int_equal(cgroup_memory(&group), 1000000);
  assert_int_equal(cgroup_memory_peak(&group), 2000000);
  assert_int_equal(cgroup_memory_unreclaimable(&group), 500000);
  assert_int_equal(cgroup_oom_kills(&group), 3);
  assert_int_equal(cgroup_cpu_us(&group), 5000);
  assert_int_equal(cgroup_tasks(&group), 9);
  tree_write(tree, "sys/fs/cgroup/pids/pids.current", "12\n", 0644);
  assert_int_equal(cgroup_tasks(&group), 12);
  assert_false(cgroup_oom_kills_group(&group));
}

/* As on a host where systemd mounts version 2 beside version 1. */
TREE_TEST(tasks_are_counted_by_the_version_that_has_the_controller) {
  OPEN(group, CGROUPS "8:pids:/job\n4:memory:/job\n0::/job\n", V1 "job/memory.stat=cache 5\n",
       "sys/fs/cgroup/unified/job/cgroup.procs=1\n", "sys/fs/cgroup/pids/job/pids.current=3\n");
  assert_int_equal(group.version, 1);
  assert_int_equal(cgroup_tasks(&group), 3);
  write_file(tree, "sys/fs/cgroup/unified/job/pids.current=4\n");
  cgroup_open(&group, tree->path);
  assert_int_equal(cgroup_tasks(&group), 4);
}

/* The root of version 1 has no such file, and neither has the host's root of version 2. */
TREE_TEST(tasks_of_the_root_are_unknown) {
  OPEN(group, CGROUPS "8:pids:/\n0::/\n", "sys/fs/cgroup/pids/cgroup.procs=1\n",
       V2 "memory.stat=anon 1\n");
  assert_int_equal(group.version, 2);
  assert_int_equal(cgroup_tasks(&group), -1);
}

TREE_TEST(malformed_files_are_ignored) {
  OPEN(group, CGROUPS "0\n:\n0:\n\n::\n", V2 "memory.stat=anon 1\n");
  assert_int_equal(group.version, 0);
}

TEST_GROUP(NULL, NULL)
