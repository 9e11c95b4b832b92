#include "tests/support/memory_group.h"

#include "tests/support/agent_process.h"
#include "tests/test.h"

#define VERSION_1 "/sys/fs/cgroup/memory"
#define VERSION_1_TASKS "/sys/fs/cgroup/pids"
#define VERSION_1_CPU "/sys/fs/cgroup/cpu"
#define VERSION_2 "/sys/fs/cgroup"

static int write_file(const char *directory, const char *name, const char *text) {
  char path[2 * PATH_MAX];
  (void)snprintf(path, sizeof path, "%s/%s", directory, name);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return -1;
  ssize_t length = write(fd, text, strlen(text));
  close(fd);
  return length == (ssize_t)strlen(text) ? 0 : -1;
}

static void make_further(char path[PATH_MAX], const char *mount) {
  (void)snprintf(path, PATH_MAX, "%s/test-%d", mount, (int)getpid());
  if (mkdir(path, 0755) != 0)
    path[0] = '\0';
}

void memory_group_init(struct memory_group *self, size_t limit_bytes) {
  char limit[32];
  bool is_first = access(VERSION_1 "/memory.limit_in_bytes", F_OK) == 0;
  (void)snprintf(limit, sizeof limit, "%zu", limit_bytes);
  (void)snprintf(self->path, sizeof self->path, "%s/test-%d", is_first ? VERSION_1 : VERSION_2,
                 (int)getpid());
  if (!is_first)
    (void)write_file(VERSION_2, "cgroup.subtree_control", "+memory");
  (void)write_file(VERSION_2, "cgroup.subtree_control", "+pids");
  (void)write_file(VERSION_2, "cgroup.subtree_control", "+cpu");
  make_further(self->tasks, VERSION_1_TASKS);
  make_further(self->cpu, VERSION_1_CPU);
  if (mkdir(self->path, 0755) != 0)
    fail_msg("%s: %s", self->path, strerror(errno));
  if (write_file(self->path, is_first ? "memory.limit_in_bytes" : "memory.max", limit) != 0)
    fail_msg("%s: no limit: %s", self->path, strerror(errno));
  (void)snprintf(limit, sizeof limit, "%d", MEMORY_GROUP_TASKS_MAX);
  (void)write_file(self->tasks[0] != '\0' ? self->tasks : self->path, "pids.max", limit);
}

static bool is_removed(void *path) {
  return rmdir(path) == 0;
}

void memory_group_release(struct memory_group *self) {
  char *const paths[] = {self->path, self->tasks, self->cpu};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    assert_true(*paths[i] == '\0' || wait_until(is_removed, paths[i], WAIT_BOUND_MS));
}

void memory_group_enter(const void *group) {
  const struct memory_group *self = group;
  const char *const paths[] = {self->path, self->tasks, self->cpu};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    if (*paths[i] != '\0' && write_file(paths[i], "cgroup.procs", "0") != 0)
      _exit(AGENT_PROCESS_NO_START);
}
