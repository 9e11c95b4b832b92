#include "agent/frontends/redis/heartbeat/status.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "wire/features.h"

static bool is_listed(const char *const *names, const char *name) {
  while (*names != NULL && strcmp(*names, name) != 0)
    names++;
  return *names != NULL;
}

void status_announce(struct status *self, const char *version, const char *const *without,
                     const struct buffer *abilities) {
  struct buffer *out = &self->text;
  out->length = 0;
  buffer_add_format(
      out, ",\"Version\":\"%s\",\"Protocol\":\"" PROTOCOL_VERSIONS "\",\"Features\":[", version);
  for (size_t i = 0; protocol_features[i] != NULL; i++)
    if (!is_listed(without, protocol_features[i]))
      buffer_add_format(out, "%s\"%s\"", i > 0 ? "," : "", protocol_features[i]);
  buffer_add_string(out, "]");
  buffer_add(out, abilities->bytes, abilities->length);
  self->agent_length = out->length;
  if (self->written > 0)
    self->written = 1; /* the figures are read again */
}

void status_release(struct status *self) {
  buffer_release(&self->text);
}

/* `name` is the text before the number. */
static void add_number(struct buffer *out, const char *name, uint64_t number) {
  buffer_add_string(out, name);
  buffer_add_number(out, number);
}

static void add_figure(struct buffer *out, const char *name, int64_t figure) {
  if (figure >= 0)
    add_number(out, name, (uint64_t)figure);
}

/* A path that is not UTF-8 is omitted. Frees the path. */
static void add_directory(struct buffer *out, char *path) {
  const size_t length = path != NULL ? strlen(path) : 0;
  if (length > 0 && utf8_valid_prefix(path, length) == length) {
    buffer_add_string(out, ",\"WorkingDirectory\":");
    buffer_add_json(out, path, length);
  }
  free(path);
}

/* `container` may be NULL. */
static void read_figures(struct status *self, const struct cgroup *container, char *directory,
                         size_t held_bytes, uint64_t reconnects) {
  struct buffer *out = &self->text;
  out->length = self->agent_length;
  add_directory(out, directory);
  add_number(out, ",\"Steps\":{\"ok\":", self->steps.ok);
  add_number(out, ",\"failed\":", self->steps.failed);
  add_number(out, ",\"timedOut\":", self->steps.timed_out);
  add_number(out, ",\"cancelled\":", self->steps.cancelled);
  add_number(out, "},\"HeldBytes\":", held_bytes);
  add_number(out, ",\"Reconnects\":", reconnects);
  if (container == NULL)
    return;
  add_figure(out, ",\"MemoryBytes\":", cgroup_memory(container));
  add_figure(out, ",\"MemoryLimitBytes\":", cgroup_memory_limit(container));
  add_figure(out, ",\"MemoryPeakBytes\":", cgroup_memory_peak(container));
  char seconds[STEP_RESULT_SECONDS_SIZE];
  int64_t cpu_us = cgroup_cpu_us(container);
  if (cpu_us < 0)
    return;
  step_result_seconds(seconds, cpu_us / 1000);
  buffer_add_string(out, ",\"CpuSeconds\":");
  buffer_add_string(out, seconds);
}

void status_write(struct status *self, const struct status_sources *sources, size_t held_bytes,
                  uint64_t reconnects, struct buffer *out) {
  if (self->written == 0 || self->written % STATUS_REFRESHED == 1)
    read_figures(self, self->written > 0 ? sources->container() : NULL, sources->directory(),
                 held_bytes, reconnects);
  self->written++;
  buffer_add(out, self->text.bytes, self->text.length);
}
