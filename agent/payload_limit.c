#include "agent/payload_limit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/step.h"

/* The file's beginning as a string; false: it cannot be read. */
static bool read_text(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd >= 0 ? read(fd, text, size - 1) : -1;
  if (fd >= 0)
    close(fd);
  text[length > 0 ? length : 0] = '\0';
  return length > 0;
}

/* Of a group without a limit: "max" in version 2; in version 1 a number that is larger than any
   memory. */
static uint64_t read_limit(const char *path) {
  char text[32], *end;
  if (!read_text(path, text, sizeof text))
    return UINT64_MAX;
  uint64_t limit = strtoull(text, &end, 10);
  return end > text ? limit : UINT64_MAX;
}

/* The least of the group and of those above it, as far as they can be seen: in a container that is
   the mount itself, and the group's path may not exist below it. */
static uint64_t least_limit(const char *mount, char *group, const char *file) {
  uint64_t least = UINT64_MAX;
  for (;;) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s%s/%s", mount, group, file);
    uint64_t limit = length < (int)sizeof path ? read_limit(path) : UINT64_MAX;
    if (limit < least)
      least = limit;
    char *slash = strrchr(group, '/');
    if (slash == NULL)
      return least;
    *slash = '\0';
  }
}

/* A line is "hierarchy:controllers:group"; that of version 2 has no controllers. */
static uint64_t limit_of_line(const char *root, char *line) {
  char mount[PATH_MAX];
  char *rest = line;
  (void)strsep(&rest, ":");
  const char *controllers = strsep(&rest, ":");
  if (rest == NULL || (controllers[0] != '\0' && strcmp(controllers, "memory") != 0))
    return UINT64_MAX;
  bool unified = controllers[0] == '\0';
  (void)snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s", root, unified ? "" : "/memory");
  return least_limit(mount, rest, unified ? "memory.max" : "memory.limit_in_bytes");
}

static uint64_t memory_limit(const char *root) {
  char path[PATH_MAX], groups[16384];
  (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  if (!read_text(path, groups, sizeof groups))
    return UINT64_MAX;
  uint64_t least = UINT64_MAX;
  for (char *rest = groups, *line; (line = strsep(&rest, "\n")) != NULL;) {
    uint64_t limit = limit_of_line(root, line);
    if (limit < least)
      least = limit;
  }
  return least;
}

size_t payload_limit_read(const char *root) {
  uint64_t share = memory_limit(root) / PAYLOAD_LIMIT_SHARE;
  if (share >= STEP_PAYLOAD_MAX)
    return STEP_PAYLOAD_MAX;
  return share > PAYLOAD_LIMIT_MIN ? (size_t)share : PAYLOAD_LIMIT_MIN;
}

size_t payload_limit(void) {
  static size_t limit;
  if (limit == 0)
    limit = payload_limit_read("");
  return limit;
}

void payload_limit_error(struct error *error) {
  (void)error_set(error, "payload: expected at most %zu bytes%s", payload_limit(),
                  payload_limit() < STEP_PAYLOAD_MAX ? ", an eighth of this container's memory"
                                                     : "");
}
