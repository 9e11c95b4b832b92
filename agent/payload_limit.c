#include "agent/payload_limit.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
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

/* What ulimit(1) sets, which counts addresses, used or not. */
static uint64_t process_limit(void) {
  struct rlimit space = {.rlim_cur = RLIM_INFINITY}, data = {.rlim_cur = RLIM_INFINITY};
  (void)getrlimit(RLIMIT_AS, &space);
  (void)getrlimit(RLIMIT_DATA, &data);
  return space.rlim_cur < data.rlim_cur ? space.rlim_cur : data.rlim_cur;
}

static uint64_t group_limit(const char *root) {
  uint64_t limit = read_limit(root, "memory.max");
  return limit != UINT64_MAX ? limit : read_limit(root, "memory/memory.limit_in_bytes");
}

size_t payload_limit_read(const char *root) {
  uint64_t limit = group_limit(root), own = process_limit();
  if (own < limit)
    limit = own;
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

bool payload_limit_has_room(size_t held, size_t more) {
  return held == 0 || held + more <= payload_limit();
}

void payload_limit_error(struct error *error) {
  const char *why = ", an eighth of this container's memory";
  if (payload_limit() == STEP_PAYLOAD_MAX)
    why = "";
  else if (process_limit() < group_limit(""))
    why = ", an eighth of the memory that this agent may use";
  (void)error_set(error, "payload: expected at most %zu bytes%s", payload_limit(), why);
}
