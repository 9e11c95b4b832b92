#include "base/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"

/* As version 1 has a group without a limit: the largest number of pages. */
#define NO_LIMIT (INT64_MAX / 4096 * 4096 / 2)

/* --- which they are --------------------------------------------------------------------------- */

/* A control group hierarchy, and where it is mounted. */
struct hierarchy {
  const char *controller; /* NULL: version 2 */
  char group[PATH_MAX];   /* of this process, as /proc/self/cgroup has it; "": none */
  char root[PATH_MAX];    /* the group that is mounted */
  char mount[PATH_MAX];   /* where; "": nowhere */
};

struct hierarchies {
  struct hierarchy second, memory, cpu; /* version 2, and two controllers of version 1 */
};

/* The unused bytes of the paths stay untouched: three times twelve KiB. */
static void hierarchy_init(struct hierarchy *self, const char *controller) {
  self->controller = controller;
  self->group[0] = self->root[0] = self->mount[0] = '\0';
}

static bool has_word(const char *list, const char *word) {
  const size_t length = strlen(word);
  for (; *list != '\0'; list += strcspn(list, ","), list += *list == ',')
    if (strcspn(list, ",") == length && strncmp(list, word, length) == 0)
      return true;
  return false;
}

/* A line of /proc/self/cgroup is number:controllers:group. Version 2 has no controllers there. */
static void take_group(struct hierarchy *self, const char *controllers, const char *group) {
  if (self->controller == NULL ? controllers[0] == '\0' : has_word(controllers, self->controller))
    (void)snprintf(self->group, sizeof self->group, "%s", group);
}

/* Returns false: every line is read. */
static bool take_group_line(struct hierarchies *self, char *line) {
  char *controllers = strchr(line, ':');
  char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
  if (group == NULL)
    return false;
  *group++ = '\0';
  take_group(&self->second, controllers + 1, group);
  take_group(&self->memory, controllers + 1, group);
  take_group(&self->cpu, controllers + 1, group);
  return false;
}

/* mountinfo writes spaces and other special bytes as \040. */
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

/* The fields of a mountinfo line that matter here. */
struct mount {
  const char *root, *point, *type, *options;
};

static void take_mount(struct hierarchy *self, const struct mount *mount) {
  if (self->mount[0] != '\0' ||
      (self->controller == NULL
           ? strcmp(mount->type, "cgroup2") != 0
           : strcmp(mount->type, "cgroup") != 0 || !has_word(mount->options, self->controller)))
    return;
  copy_unescaped(self->root, mount->root);
  copy_unescaped(self->mount, mount->point);
}

static bool is_found(const struct hierarchy *self) {
  return self->group[0] == '\0' || self->mount[0] != '\0';
}

/* A line of proc(5) mountinfo: number, parent, device, root, mount point, options, …, " - ", type,
   source, options of the file system. Returns true when no further line is needed. */
static bool take_mount_line(struct hierarchies *self, char *line) {
  char *end = strstr(line, " - "), *saved = NULL;
  struct mount mount = {0};
  if (end == NULL || strncmp(end + 3, "cgroup", strlen("cgroup")) != 0)
    return false;
  *end = '\0';
  mount.type = strtok_r(end + 3, " ", &saved);
  (void)strtok_r(NULL, " ", &saved);
  mount.options = strtok_r(NULL, " ", &saved);
  for (int i = 0; i < 3; i++, line = NULL)
    (void)strtok_r(line, " ", &saved);
  mount.root = strtok_r(NULL, " ", &saved);
  mount.point = strtok_r(NULL, " ", &saved);
  if (mount.type == NULL || mount.options == NULL || mount.root == NULL || mount.point == NULL)
    return false;
  take_mount(&self->second, &mount);
  take_mount(&self->memory, &mount);
  take_mount(&self->cpu, &mount);
  return is_found(&self->second) && is_found(&self->memory) && is_found(&self->cpu);
}

/* Hands each line of /proc/self/<name> to `take`, until it returns true. */
static void each_line(const char *root, const char *name,
                      bool (*take)(struct hierarchies *self, char *line),
                      struct hierarchies *self) {
  enum { READ_SIZE = 16 * 1024 };
  char path[PATH_MAX];
  struct buffer text = {0};
  ssize_t length = 0;
  (void)snprintf(path, sizeof path, "%s/proc/self/%s", root, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  while (fd >= 0 && (length = read(fd, buffer_space(&text, READ_SIZE), READ_SIZE)) > 0)
    text.length += (size_t)length;
  if (fd >= 0)
    close(fd);
  buffer_add(&text, "", 1);
  for (char *line = text.bytes, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    *end = '\0';
    if (take(self, line))
      break;
  }
  buffer_release(&text);
}

/* The group's path below the mount point. "" where the group lies elsewhere, as in a container that
   sees the host's path of it: then what is mounted is the container's own group. */
static const char *path_below(const struct hierarchy *self) {
  size_t length = strlen(self->root);
  if (strcmp(self->root, "/") == 0)
    return strncmp(self->group, "/..", 3) != 0 ? self->group : "";
  return strncmp(self->group, self->root, length) == 0 &&
                 (self->group[length] == '/' || self->group[length] == '\0')
             ? self->group + length
             : "";
}

/* Returns a descriptor of the group's directory if that has the file, else -1. */
static int open_directory(const char *root, const struct hierarchy *hierarchy, const char *file) {
  char path[3 * PATH_MAX];
  if (hierarchy->group[0] == '\0' || hierarchy->mount[0] == '\0')
    return -1;
  for (const char *below = path_below(hierarchy);; below = "") {
    (void)snprintf(path, sizeof path, "%s%s%s", root, hierarchy->mount, below);
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && faccessat(fd, file, R_OK, 0) == 0)
      return fd;
    if (fd >= 0)
      close(fd);
    if (*below == '\0')
      return -1;
  }
}

static int open_file(int directory, const char *name) {
  return directory >= 0 ? openat(directory, name, O_RDONLY | O_CLOEXEC) : -1;
}

static void close_if_open(int fd) {
  if (fd >= 0)
    close(fd);
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
                        const struct hierarchies *hierarchies) {
  self->version = 2;
  int directory = open_directory(root, &hierarchies->second, "memory.stat");
  if (directory < 0) {
    self->version = 1;
    directory = open_directory(root, &hierarchies->memory, "memory.stat");
  }
  if (directory < 0) {
    self->version = 0;
    return;
  }
  const bool is_second = self->version == 2;
  self->events = open_file(directory, is_second ? "memory.events" : "memory.oom_control");
  self->stat = open_file(directory, "memory.stat");
  self->usage = open_file(directory, is_second ? "memory.current" : "memory.usage_in_bytes");
  self->peak = open_file(directory, is_second ? "memory.peak" : "memory.max_usage_in_bytes");
  self->kills_group = is_second ? open_file(directory, "memory.oom.group") : -1;
  open_limits(self, directory);
  close(directory);
}

/* If memory is counted by version 1, version 1 is preferred for processor time, too. */
static void open_cpu(struct cgroup *self, const char *root, const struct hierarchies *hierarchies) {
  int directory =
      self->version != 2 ? open_directory(root, &hierarchies->cpu, "cpuacct.usage") : -1;
  self->cpu_is_stat = directory < 0;
  if (self->cpu_is_stat)
    directory = open_directory(root, &hierarchies->second, "cpu.stat");
  self->cpu = open_file(directory, self->cpu_is_stat ? "cpu.stat" : "cpuacct.usage");
  close_if_open(directory);
}

void cgroup_open(struct cgroup *self, const char *root) {
  struct hierarchies hierarchies;
  hierarchy_init(&hierarchies.second, NULL);
  hierarchy_init(&hierarchies.memory, "memory");
  hierarchy_init(&hierarchies.cpu, "cpuacct");
  *self = CGROUP_NONE;
  each_line(root, "cgroup", take_group_line, &hierarchies);
  each_line(root, "mountinfo", take_mount_line, &hierarchies);
  open_memory(self, root, &hierarchies);
  open_cpu(self, root, &hierarchies);
}

const struct cgroup *cgroup_own(void) {
  static struct cgroup own;
  static bool is_open;
  if (!is_open)
    cgroup_open(&own, "");
  is_open = true;
  return &own;
}

void cgroup_close(struct cgroup *self) {
  close_if_open(self->events);
  close_if_open(self->stat);
  close_if_open(self->usage);
  close_if_open(self->peak);
  close_if_open(self->kills_group);
  close_if_open(self->cpu);
  for (size_t i = 0; i < self->limit_count; i++)
    close(self->limits[i]);
  *self = CGROUP_NONE;
}

/* --- what they say ---------------------------------------------------------------------------- */

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

static int64_t read_number(int fd) {
  char text[TEXT_SIZE];
  return read_text(fd, text) ? number_in(text) : -1;
}

/* Of a line "name number"; -1: there is none. */
static int64_t find_number(const char *text, const char *name) {
  const size_t length = strlen(name);
  for (; *text != '\0'; text += strcspn(text, "\n"), text += *text == '\n')
    if (strncmp(text, name, length) == 0 && text[length] == ' ')
      return number_in(text + length + 1);
  return -1;
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
    int64_t limit = read_number(self->limits[i]); /* "max" is no number */
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
  /* Its lists, for locked memory counts in anon or shmem, too: each page is on one. */
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
  char text[TEXT_SIZE];
  return read_text(self->stat, text)
             ? find_number(text, self->version == 2 ? "shmem" : "total_shmem")
             : -1;
}

int64_t cgroup_oom_kills(const struct cgroup *self) {
  char text[TEXT_SIZE];
  return read_text(self->events, text) ? find_number(text, "oom_kill") : -1;
}

bool cgroup_oom_kills_group(const struct cgroup *self) {
  return read_number(self->kills_group) == 1;
}

int64_t cgroup_cpu_us(const struct cgroup *self) {
  char text[TEXT_SIZE];
  if (!read_text(self->cpu, text))
    return -1;
  if (self->cpu_is_stat)
    return find_number(text, "usage_usec");
  int64_t nanoseconds = number_in(text);
  return nanoseconds >= 0 ? nanoseconds / 1000 : -1;
}
