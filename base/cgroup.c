#include "base/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"

/* Half the limit that version 1 reports for a group without one, which is the largest number of
   pages. */
#define NO_LIMIT (INT64_MAX / 4096 * 4096 / 2)

/* A file of /proc/self; memory.stat has some 60 lines. */
#define TEXT_SIZE 16384

static bool read_text(int fd, char text[TEXT_SIZE]) {
  ssize_t length = fd >= 0 ? pread(fd, text, TEXT_SIZE - 1, 0) : -1;
  text[length > 0 ? length : 0] = '\0';
  return length > 0;
}

/* --- finding the groups ----------------------------------------------------------------------- */

/* Where the hierarchies are mounted, in every container runtime. */
static const struct hierarchy {
  const char *controller; /* between commas; version 2 has none */
  const char *mount;
} hierarchies[] = {{",,", "/sys/fs/cgroup"},
                   {",,", "/sys/fs/cgroup/unified"}, /* beside version 1 */
                   {",memory,", "/sys/fs/cgroup/memory"},
                   {",cpuacct,", "/sys/fs/cgroup/cpuacct"},
                   {",pids,", "/sys/fs/cgroup/pids"}};
enum { SECOND, SECOND_BESIDE, MEMORY, CPU, PIDS, HIERARCHIES };

/* The groups of this process by hierarchy, within the text of /proc/self/cgroup; NULL if there is
   none. */
struct groups {
  const char *of[HIERARCHIES];
  char text[TEXT_SIZE];
};

/* Reads the lines number:controllers:group. */
static void read_groups(struct groups *self, const char *root) {
  char path[PATH_MAX], list[256], *saved = NULL;
  (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  for (int i = 0; i < HIERARCHIES; i++)
    self->of[i] = NULL;
  (void)read_text(fd, self->text);
  descriptor_close(fd);
  for (char *line = strtok_r(self->text, "\n", &saved); line != NULL;
       line = strtok_r(NULL, "\n", &saved)) {
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL || group[1] != '/')
      continue;
    *group++ = '\0';
    (void)snprintf(list, sizeof list, ",%s,", controllers + 1);
    for (int i = 0; i < HIERARCHIES; i++)
      if (strstr(list, hierarchies[i].controller) != NULL)
        self->of[i] = group;
  }
}

/* Returns a descriptor of the group's directory if that has the file, or else -1. A container may
   see the host's path, or one outside of what it sees ("/.."): its own group is then what is
   mounted. */
static int open_directory(const char *root, const struct groups *groups, int hierarchy,
                          const char *file) {
  const char *group = groups->of[hierarchy];
  char path[3 * PATH_MAX];
  if (group == NULL)
    return -1;
  for (const char *below = strncmp(group, "/..", 3) != 0 ? group : "";; below = "") {
    (void)snprintf(path, sizeof path, "%s%s%s", root, hierarchies[hierarchy].mount, below);
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && faccessat(fd, file, R_OK, 0) == 0)
      return fd;
    descriptor_close(fd);
    if (*below == '\0')
      return -1;
  }
}

static int open_file(int directory, const char *name) {
  return directory >= 0 ? openat(directory, name, O_RDONLY | O_CLOEXEC) : -1;
}

static void open_limits(struct cgroup *self, int directory) {
  const char *name = self->version == 2 ? "memory.max" : "memory.limit_in_bytes";
  char path[3 * CGROUP_DEPTH_MAX + 32];
  for (size_t up = 0; up < CGROUP_DEPTH_MAX; up++) {
    for (size_t i = 0; i < up; i++)
      memcpy(path + 3 * i, "../", 3);
    (void)snprintf(path + 3 * up, sizeof path - 3 * up, "%s", name);
    int fd = open_file(directory, path);
    if (fd < 0)
      return;
    self->limits[self->limit_count++] = fd;
  }
}

static void open_memory(struct cgroup *self, const char *root, const struct groups *groups) {
  int directory = -1, hierarchy = SECOND;
  while (hierarchy <= MEMORY &&
         (directory = open_directory(root, groups, hierarchy, "memory.stat")) < 0)
    hierarchy++;
  if (directory < 0)
    return;
  const bool is_second = hierarchy < MEMORY;
  self->version = is_second ? 2 : 1;
  self->events = open_file(directory, is_second ? "memory.events" : "memory.oom_control");
  self->stat = open_file(directory, "memory.stat");
  self->usage = open_file(directory, is_second ? "memory.current" : "memory.usage_in_bytes");
  self->peak = open_file(directory, is_second ? "memory.peak" : "memory.max_usage_in_bytes");
  self->kills_group = is_second ? open_file(directory, "memory.oom.group") : -1;
  open_limits(self, directory);
  close(directory);
}

/* If version 1 counts memory, it is preferred for processor time, too. */
static void open_cpu(struct cgroup *self, const char *root, const struct groups *groups) {
  int directory = self->version != 2 ? open_directory(root, groups, CPU, "cpuacct.usage") : -1;
  self->cpu_is_stat = directory < 0;
  for (int i = SECOND; directory < 0 && i <= SECOND_BESIDE; i++)
    directory = open_directory(root, groups, i, "cpu.stat");
  self->cpu = open_file(directory, self->cpu_is_stat ? "cpu.stat" : "cpuacct.usage");
  descriptor_close(directory);
}

/* A controller belongs to one of the two versions, and only that one has its files. */
static void open_tasks(struct cgroup *self, const char *root, const struct groups *groups) {
  static const int candidates[] = {SECOND, SECOND_BESIDE, PIDS};
  int directory = -1;
  for (size_t i = 0; directory < 0 && i < sizeof candidates / sizeof *candidates; i++)
    directory = open_directory(root, groups, candidates[i], "pids.current");
  self->tasks = open_file(directory, "pids.current");
  descriptor_close(directory);
}

void cgroup_open(struct cgroup *self, const char *root) {
  struct groups groups;
  *self = CGROUP_NONE;
  read_groups(&groups, root);
  open_memory(self, root, &groups);
  open_cpu(self, root, &groups);
  open_tasks(self, root, &groups);
}

const struct cgroup *cgroup_own(void) {
  static struct cgroup own;
  static bool is_open;
  if (!is_open)
    cgroup_open(&own, "");
  is_open = true;
  return &own;
}

/* --- reading their figures -------------------------------------------------------------------- */

static int64_t number_in(const char *text) {
  char *end;
  long long number = strtoll(text, &end, 10);
  return end > text && number >= 0 ? number : -1;
}

/* Returns -1 for "max", too. */
static int64_t read_number(int fd) {
  char text[TEXT_SIZE];
  return read_text(fd, text) ? number_in(text) : -1;
}

/* Returns the number of the line "name number", or -1 if there is none. */
static int64_t find_number(const char *text, const char *name) {
  const size_t length = strlen(name);
  for (; *text != '\0'; text += strcspn(text, "\n"), text += *text == '\n')
    if (strncmp(text, name, length) == 0 && text[length] == ' ')
      return number_in(text + length + 1);
  return -1;
}

static int64_t read_named(int fd, const char *name) {
  char text[TEXT_SIZE];
  return read_text(fd, text) ? find_number(text, name) : -1;
}

static int64_t sum_numbers(const char *text, const char *const *names) {
  int64_t sum = 0;
  for (; *names != NULL; names++) {
    int64_t number = find_number(text, *names);
    sum += number > 0 ? number : 0;
  }
  return sum;
}

int64_t cgroup_memory_limit(const struct cgroup *self) {
  int64_t lowest = -1;
  for (size_t i = 0; i < self->limit_count; i++) {
    int64_t limit = read_number(self->limits[i]);
    if (limit >= 0 && limit < NO_LIMIT && (lowest < 0 || limit < lowest))
      lowest = limit;
  }
  return lowest;
}

int64_t cgroup_memory(const struct cgroup *self) {
  return read_number(self->usage);
}

int64_t cgroup_memory_peak(const struct cgroup *self) {
  return read_number(self->peak);
}

int64_t cgroup_memory_unreclaimable(const struct cgroup *self) {
  /* The sizes of lists, because each page is on one list, while locked memory also counts in anon
     or shmem. */
  static const char *const held[] = {
      "inactive_anon", "active_anon", "unevictable", "slab_unreclaimable",
      "kernel_stack",  "pagetables",  NULL};
  static const char *const files[] = {"total_inactive_file", "total_active_file", NULL};
  char text[TEXT_SIZE];
  if (!read_text(self->stat, text))
    return -1;
  if (self->version == 2)
    return sum_numbers(text, held);
  int64_t usage = cgroup_memory(self), reclaimable = sum_numbers(text, files);
  return usage < reclaimable ? usage : usage - reclaimable;
}

int64_t cgroup_memory_shmem(const struct cgroup *self) {
  return read_named(self->stat, self->version == 2 ? "shmem" : "total_shmem");
}

int64_t cgroup_oom_kills(const struct cgroup *self) {
  return read_named(self->events, "oom_kill");
}

bool cgroup_oom_kills_group(const struct cgroup *self) {
  return read_number(self->kills_group) == 1;
}

int64_t cgroup_tasks(const struct cgroup *self) {
  return read_number(self->tasks);
}

int64_t cgroup_cpu_us(const struct cgroup *self) {
  if (self->cpu_is_stat)
    return read_named(self->cpu, "usage_usec");
  int64_t nanoseconds = read_number(self->cpu);
  return nanoseconds >= 0 ? nanoseconds / 1000 : -1;
}
