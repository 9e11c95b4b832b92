#include "base/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/descriptor.h"

/* Half the limit that version 1 reports for a group without one, which is the largest number of
   pages. */
#define NO_LIMIT (INT64_MAX / 4096 * 4096 / 2)

/* --- finding the groups ----------------------------------------------------------------------- */

/* A control group hierarchy and where it is mounted. */
struct hierarchy {
  const char *controller; /* of version 1; NULL for version 2 */
  char group[PATH_MAX];   /* of this process, as in /proc/self/cgroup; "" if there is none */
  char root[PATH_MAX];    /* the group that is mounted */
  char mount[PATH_MAX];   /* where it is mounted; "" if it is not */
};

enum { SECOND, MEMORY, CPU, HIERARCHIES }; /* version 2, and two controllers of version 1 */

static bool has_word(const char *list, const char *word) {
  const size_t length = strlen(word);
  for (; *list != '\0'; list += strcspn(list, ","), list += *list == ',')
    if (strcspn(list, ",") == length && strncmp(list, word, length) == 0)
      return true;
  return false;
}

/* Reads a line number:controllers:group of /proc/self/cgroup; version 2 has no controllers. */
static void read_group(struct hierarchy *self, char *line) {
  char *controllers = strchr(line, ':');
  char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
  if (group == NULL)
    return;
  *group++ = '\0';
  controllers++;
  for (int i = 0; i < HIERARCHIES; i++, self++)
    if (self->controller == NULL ? controllers[0] == '\0' : has_word(controllers, self->controller))
      (void)snprintf(self->group, sizeof self->group, "%s", group);
}

/* mountinfo escapes spaces and other special bytes, as in \040. */
static void copy_unescaped(char out[PATH_MAX], const char *text) {
  size_t length = 0;
  for (; *text != '\0' && length < PATH_MAX - 1; text++) {
    unsigned byte;
    int taken = 0;
    if (*text == '\\' && sscanf(text + 1, "%3o%n", &byte, &taken) == 1 && taken == 3) {
      out[length++] = (char)byte;
      text += 3;
    } else {
      out[length++] = *text;
    }
  }
  out[length] = '\0';
}

/* Reads a line of proc(5) mountinfo: number, parent, device, root, mount point, options, …, " - ",
   type, source, options of the file system. */
static void read_mount(struct hierarchy *self, char *line) {
  char *end = strstr(line, " - "), *saved = NULL;
  if (end == NULL || strncmp(end + 3, "cgroup", strlen("cgroup")) != 0)
    return;
  *end = '\0';
  const char *type = strtok_r(end + 3, " ", &saved);
  (void)strtok_r(NULL, " ", &saved);
  const char *options = strtok_r(NULL, " ", &saved);
  for (int i = 0; i < 3; i++, line = NULL)
    (void)strtok_r(line, " ", &saved);
  const char *root = strtok_r(NULL, " ", &saved), *point = strtok_r(NULL, " ", &saved);
  if (type == NULL || options == NULL || root == NULL || point == NULL)
    return;
  for (int i = 0; i < HIERARCHIES; i++, self++)
    if (self->mount[0] == '\0' &&
        (self->controller == NULL
             ? strcmp(type, "cgroup2") == 0
             : strcmp(type, "cgroup") == 0 && has_word(options, self->controller))) {
      copy_unescaped(self->root, root);
      copy_unescaped(self->mount, point);
    }
}

static void read_lines(const char *root, const char *name,
                       void (*read_line)(struct hierarchy *self, char *line),
                       struct hierarchy *self) {
  enum { READ_SIZE = 16 * 1024 };
  char path[PATH_MAX];
  struct buffer text = {0};
  ssize_t length = 0;
  (void)snprintf(path, sizeof path, "%s/proc/self/%s", root, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  while (fd >= 0 && (length = read(fd, buffer_space(&text, READ_SIZE), READ_SIZE)) > 0)
    text.length += (size_t)length;
  descriptor_close(fd);
  buffer_add(&text, "", 1);
  for (char *line = text.bytes, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    *end = '\0';
    read_line(self, line);
  }
  buffer_release(&text);
}

/* Returns the group's path below the mount point. It is "" if the group lies elsewhere, as in a
   container that sees the host's path: its own group is then what is mounted. */
static const char *path_below(const struct hierarchy *self) {
  size_t length = strlen(self->root);
  if (strcmp(self->root, "/") == 0)
    return strncmp(self->group, "/..", 3) != 0 ? self->group : "";
  return strncmp(self->group, self->root, length) == 0 &&
                 (self->group[length] == '/' || self->group[length] == '\0')
             ? self->group + length
             : "";
}

/* Returns a descriptor of the group's directory if that has the file, or else -1. */
static int open_directory(const char *root, const struct hierarchy *hierarchy, const char *file) {
  char path[3 * PATH_MAX];
  if (hierarchy->group[0] == '\0' || hierarchy->mount[0] == '\0')
    return -1;
  for (const char *below = path_below(hierarchy);; below = "") {
    (void)snprintf(path, sizeof path, "%s%s%s", root, hierarchy->mount, below);
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

static void open_memory(struct cgroup *self, const char *root,
                        const struct hierarchy *hierarchies) {
  int directory = open_directory(root, &hierarchies[SECOND], "memory.stat");
  const bool is_second = directory >= 0;
  if (!is_second)
    directory = open_directory(root, &hierarchies[MEMORY], "memory.stat");
  if (directory < 0)
    return;
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
static void open_cpu(struct cgroup *self, const char *root, const struct hierarchy *hierarchies) {
  int directory =
      self->version != 2 ? open_directory(root, &hierarchies[CPU], "cpuacct.usage") : -1;
  self->cpu_is_stat = directory < 0;
  if (self->cpu_is_stat)
    directory = open_directory(root, &hierarchies[SECOND], "cpu.stat");
  self->cpu = open_file(directory, self->cpu_is_stat ? "cpu.stat" : "cpuacct.usage");
  descriptor_close(directory);
}

void cgroup_open(struct cgroup *self, const char *root) {
  static const char *const controllers[HIERARCHIES] = {
      [SECOND] = NULL, [MEMORY] = "memory", [CPU] = "cpuacct"};
  struct hierarchy hierarchies[HIERARCHIES]; /* most of their 36 KiB stays untouched */
  for (int i = 0; i < HIERARCHIES; i++) {
    hierarchies[i].controller = controllers[i];
    hierarchies[i].group[0] = hierarchies[i].root[0] = hierarchies[i].mount[0] = '\0';
  }
  *self = CGROUP_NONE;
  read_lines(root, "cgroup", read_group, hierarchies);
  read_lines(root, "mountinfo", read_mount, hierarchies);
  open_memory(self, root, hierarchies);
  open_cpu(self, root, hierarchies);
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

/* memory.stat has some 60 lines. */
#define TEXT_SIZE 8192

static bool read_text(int fd, char text[TEXT_SIZE]) {
  ssize_t length = fd >= 0 ? pread(fd, text, TEXT_SIZE - 1, 0) : -1;
  text[length > 0 ? length : 0] = '\0';
  return length > 0;
}

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

int64_t cgroup_cpu_us(const struct cgroup *self) {
  if (self->cpu_is_stat)
    return read_named(self->cpu, "usage_usec");
  int64_t nanoseconds = read_number(self->cpu);
  return nanoseconds >= 0 ? nanoseconds / 1000 : -1;
}
