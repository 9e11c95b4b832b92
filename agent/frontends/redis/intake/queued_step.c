#include "agent/frontends/redis/intake/queued_step.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/engine/secrets.h"
#include "agent/kinds/kind.h"
#include "agent/payload_limit.h"
#include "base/memory.h"

struct queued_step *queued_step_new(const struct payload *payload) {
  struct queued_step *self = memory_allocate(sizeof *self);
  *self = (struct queued_step){.payload = *payload};
  self->payload.bytes = memory_copy(payload->bytes, payload->length);
  self->is_rejected =
      step_parse(&self->step, kinds, payload->bytes, payload->length, &self->error) != 0 ||
      secrets_check(&self->step, &self->error) != 0;
  self->step_id = memory_copy(self->step.step_id, strlen(self->step.step_id));
  if (self->step.reply_to != NULL)
    self->reply_to = memory_copy(self->step.reply_to, strlen(self->step.reply_to));
  if (payload->is_truncated) {
    self->is_rejected = true;
    payload_limit_error(&self->error);
  }
  return self;
}

void queued_step_free(struct queued_step *self) {
  if (self == NULL)
    return;
  free((char *)(uintptr_t)self->payload.bytes);
  step_release(&self->step);
  free(self->step_id);
  free(self->reply_to);
  free(self);
}

bool queued_step_matches(const struct queued_step *self, const struct payload *payload) {
  const struct payload *known = &self->payload;
  bool is_cut = known->is_truncated && payload->is_truncated;
  size_t length = is_cut && known->length < payload->length ? known->length : payload->length;
  return known->is_truncated == payload->is_truncated && (is_cut || known->length == length) &&
         memcmp(known->bytes, payload->bytes, length) == 0;
}

bool queued_step_is_work(const struct queued_step *self) {
  return !self->is_rejected && step_is_work(&self->step);
}
