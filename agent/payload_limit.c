#include "agent/payload_limit.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "wire/step.h"

/* Of a group without a limit: "max" in version 2; in version 1 a number that is larger than any
   memory. */
static uint64_t read_limit(const char *root, const char *name) {
  char path[256], text[32], *end;
  (void)snprintf(path, sizeof path, "%s/sys/fs/cgroup/%s", root, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return UINT64_MAX;
  ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  text[length > 0 ? length : 0] = '\0';
  uint64_t limit = strtoull(text, &end, 10);
  return end > text ? limit : UINT64_MAX;
}

size_t payload_limit_read(const char *root) {
  uint64_t limit = read_limit(root, "memory.max");
  if (limit == UINT64_MAX)
    limit = read_limit(root, "memory/memory.limit_in_bytes");
  uint64_t share = limit / PAYLOAD_LIMIT_SHARE;
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
