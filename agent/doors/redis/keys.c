#include "agent/doors/redis/keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static char *name(const char *job_id, const char *suffix) {
  static const char prefix[] = "sandbox:";
  size_t prefix_length = sizeof prefix - 1;
  size_t id_length = strlen(job_id);
  size_t suffix_length = strlen(suffix);
  char *key = memory_allocate(prefix_length + id_length + suffix_length + 1);
  memcpy(key, prefix, prefix_length);
  memcpy(key + prefix_length, job_id, id_length);
  memcpy(key + prefix_length + id_length, suffix, suffix_length + 1);
  return key;
}

void keys_init(struct keys *self, const char *job_id) {
  self->in = name(job_id, ":in");
  self->events = name(job_id, ":events");
  self->results = name(job_id, ":results");
  self->inflight = name(job_id, ":inflight");
  self->started = name(job_id, ":started");
  self->committed = name(job_id, ":committed");
  self->heartbeat = name(job_id, ":heartbeat");
}

void keys_release(struct keys *self) {
  free(self->in);
  free(self->events);
  free(self->results);
  free(self->inflight);
  free(self->started);
  free(self->committed);
  free(self->heartbeat);
  *self = (struct keys){0};
}
