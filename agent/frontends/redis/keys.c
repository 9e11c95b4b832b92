#include "agent/frontends/redis/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static char *name(const char *job_id, const char *suffix) {
  char *key = memory_allocate(sizeof "sandbox::" + strlen(job_id) + strlen(suffix));
  (void)sprintf(key, "sandbox:%s:%s", job_id, suffix);
  return key;
}

void keys_init(struct keys *self, const char *job_id) {
  self->job_id = job_id;
  self->in = name(job_id, "in");
  self->events = name(job_id, "events");
  self->results = name(job_id, "results");
  self->inflight = name(job_id, "inflight");
  self->started = name(job_id, "started");
  self->committed = name(job_id, "committed");
  self->heartbeat = name(job_id, "heartbeat");
  self->control = name(job_id, "control");
}

void keys_release(struct keys *self) {
  free(self->in);
  free(self->events);
  free(self->results);
  free(self->inflight);
  free(self->started);
  free(self->committed);
  free(self->heartbeat);
  free(self->control);
  *self = (struct keys){0};
}

char *keys_reply(const struct keys *self, const char *reply_to) {
  char *key = memory_allocate(strlen(self->results) + strlen(reply_to) + sizeof ":");
  (void)sprintf(key, "%s:%s", self->results, reply_to);
  return key;
}

bool keys_is_reply(const struct keys *self, const char *key, size_t length) {
  size_t prefix = strlen(self->results);
  return length > prefix && memcmp(key, self->results, prefix) == 0 && key[prefix] == ':';
}

struct client_name keys_client_name(const struct keys *self, const char *role) {
  struct client_name name;
  (void)snprintf(name.text, sizeof name.text, "sandbox:%.100s:%s", self->job_id, role);
  return name;
}
