#include "agent/doors/redis/beat/status.h"

#include <inttypes.h>
#include <string.h>

#include "wire/features.h"

void status_init(struct status *self, const char *version) {
  *self = (struct status){.version = version};
}

void status_release(struct status *self) {
  buffer_release(&self->figures);
}

void status_count(struct status *self, const struct step_result *result) {
  enum step_cause cause = result->end.cause;
  if (cause == STEP_CAUSE_TIMEOUT)
    self->steps.timed_out++;
  else if (cause == STEP_CAUSE_CANCELLED)
    self->steps.cancelled++;
  else if (cause == STEP_CAUSE_EXITED && result->exit_code == 0)
    self->steps.ok++;
  else
    self->steps.failed++;
}

static void add_figure(struct buffer *out, const char *name, int64_t figure) {
  if (figure >= 0)
    buffer_add_format(out, ",\"%s\":%" PRId64, name, figure);
}

static void read_figures(struct status *self, const struct cgroup *container, size_t held_bytes,
                         uint64_t reconnects) {
  struct buffer *out = &self->figures;
  out->length = 0;
  buffer_add_format(out,
                    ",\"Steps\":{\"ok\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"timedOut\":%" PRIu64
                    ",\"cancelled\":%" PRIu64 "},\"HeldBytes\":%zu,\"Reconnects\":%" PRIu64,
                    self->steps.ok, self->steps.failed, self->steps.timed_out,
                    self->steps.cancelled, held_bytes, reconnects);
  add_figure(out, "MemoryBytes", cgroup_memory(container));
  add_figure(out, "MemoryLimitBytes", cgroup_memory_limit(container));
  add_figure(out, "MemoryPeakBytes", cgroup_memory_peak(container));
  char seconds[STEP_RESULT_SECONDS_SIZE];
  int64_t cpu_us = cgroup_cpu_us(container);
  step_result_seconds(seconds, cpu_us / 1000);
  if (cpu_us >= 0)
    buffer_add_format(out, ",\"CpuSeconds\":%s", seconds);
}

void status_write(struct status *self, const struct cgroup *container, size_t held_bytes,
                  uint64_t reconnects, struct buffer *out) {
  if (self->written++ % STATUS_REFRESHED == 0)
    read_figures(self, container, held_bytes, reconnects);
  buffer_add_format(out,
                    ",\"Version\":\"%s\",\"Protocol\":\"" PROTOCOL_VERSIONS "\",\"Features\":[",
                    self->version);
  for (size_t i = 0; protocol_features[i] != NULL; i++)
    buffer_add_format(out, "%s\"%s\"", i > 0 ? "," : "", protocol_features[i]);
  buffer_add_string(out, "]");
  buffer_add(out, self->figures.bytes, self->figures.length);
}
