#include "agent/frontends/redis/delivery/ownership.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value with a larger epoch is treated as foreign text, so that the epoch never overflows. */
#define EPOCH_MAX (UINT64_MAX / 2)

/* Returns epoch 0, which is no owner, for a value that no agent can have written: one that differs
   from the token with the same numbers. */
static struct ownership parse(const char *value, size_t length) {
  struct ownership parsed = {0};
  char text[OWNERSHIP_TEXT_SIZE], *end;
  if (value == NULL)
    return parsed;
  parsed.epoch = strtoull(value, &end, 10);
  if (*end == ':')
    parsed.instance = strtoull(end + 1, &end, 16);
  if (*end == ':')
    parsed.delivered = strtoull(end + 1, &end, 10);
  bool is_token = ownership_text(&parsed, parsed.delivered, text) == length &&
                  memcmp(text, value, length) == 0 && parsed.epoch < EPOCH_MAX;
  return is_token ? parsed : (struct ownership){0};
}

enum ownership_state ownership_update(struct ownership *self, bool executed, const char *value,
                                      size_t length) {
  if (self->epoch == 0) {
    self->epoch = parse(value, length).epoch + 1;
    return OWNERSHIP_PENDING;
  }
  self->delivered += executed;
  enum ownership_state state = ownership_compare(self, value, length);
  self->delivered += state == OWNERSHIP_DELIVERED;
  return state;
}

enum ownership_state ownership_compare(const struct ownership *self, const char *value,
                                       size_t length) {
  struct ownership theirs = parse(value, length);
  if (theirs.epoch == self->epoch && theirs.instance == self->instance) {
    if (theirs.delivered == self->delivered + 1)
      return OWNERSHIP_DELIVERED;
    return theirs.delivered == self->delivered ? OWNERSHIP_PENDING : OWNERSHIP_LOST_DATA;
  }
  if (theirs.epoch >= self->epoch)
    return OWNERSHIP_TAKEN;
  /* The value names an earlier owner, or none. Before this agent's first transaction, that is the
     normal case. After it, Redis has gone back to an older state. */
  return self->delivered == 0 ? OWNERSHIP_PENDING : OWNERSHIP_LOST_DATA;
}

size_t ownership_text(const struct ownership *self, uint64_t sequence,
                      char out[OWNERSHIP_TEXT_SIZE]) {
  return (size_t)snprintf(out, OWNERSHIP_TEXT_SIZE, "%" PRIu64 ":%016" PRIx64 ":%" PRIu64,
                          self->epoch, self->instance, sequence);
}
