#include "agent/payload_limit.h"

#include <stdint.h>
#include <sys/resource.h>

#include "base/cgroup.h"
#include "wire/step.h"

#define SHARE 8

/* The limits of ulimit(1) count addresses, whether or not they are used. */
static uint64_t process_limit(void) {
  struct rlimit space = {.rlim_cur = RLIM_INFINITY}, data = {.rlim_cur = RLIM_INFINITY};
  (void)getrlimit(RLIMIT_AS, &space);
  (void)getrlimit(RLIMIT_DATA, &data);
  return space.rlim_cur < data.rlim_cur ? space.rlim_cur : data.rlim_cur;
}

static uint64_t group_limit(void) {
  int64_t limit = cgroup_memory_limit(cgroup_own());
  return limit >= 0 ? (uint64_t)limit : UINT64_MAX;
}

size_t payload_limit(void) {
  static size_t limit;
  if (limit == 0) {
    uint64_t own = process_limit(), group = group_limit();
    uint64_t share = (own < group ? own : group) / SHARE;
    limit = share >= STEP_PAYLOAD_MAX   ? STEP_PAYLOAD_MAX
            : share > PAYLOAD_LIMIT_MIN ? (size_t)share
                                        : PAYLOAD_LIMIT_MIN;
  }
  return limit;
}

bool payload_limit_has_capacity(size_t held, size_t more) {
  return held == 0 || held + more <= payload_limit();
}

void payload_limit_error(struct error *error) {
  const char *why = ", an eighth of this container's memory";
  if (payload_limit() == STEP_PAYLOAD_MAX)
    why = "";
  else if (process_limit() < group_limit())
    why = ", an eighth of the memory that this agent may use";
  (void)error_set(error, "payload: expected at most %zu bytes%s", payload_limit(), why);
}
