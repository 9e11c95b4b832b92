#include "agent/doors/redis/visibility.h"

#include <stddef.h>

#include "base/clock.h"

void visibility_init(struct visibility *self, const struct log *log) {
  *self = (struct visibility){.log = log, .since_ms = clock_monotonic_ms()};
}

void visibility_confirm(struct visibility *self) {
  int64_t now_ms = clock_monotonic_ms();
  if (self->told)
    log_line(self->log, LOG_INFO, NULL, "redis heartbeat: visible again after %.1f s",
             (double)(now_ms - self->since_ms) / 1000);
  self->told = false;
  self->since_ms = now_ms;
}

void visibility_check(struct visibility *self, bool full) {
  if (self->told || clock_monotonic_ms() - self->since_ms < VISIBILITY_MS)
    return;
  self->told = true;
  log_line(self->log, LOG_WARN, NULL, "redis heartbeat: not visible for %d s%s",
           VISIBILITY_MS / 1000, full ? ": redis has no room for the key" : "");
}
