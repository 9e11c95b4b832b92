#include "agent/queue.h"

#include <stdlib.h>
#include <string.h>

#include "wire/memory.h"

struct queued *queued_new(const struct taken *taken) {
  struct queued *self = memory_allocate(sizeof *self);
  *self = (struct queued){.taken = *taken};
  self->taken.payload = memory_copy(taken->payload, taken->length);
  self->refused = step_parse(&self->step, taken->payload, taken->length, &self->error) != 0;
  if (!taken->whole) {
    self->refused = true;
    (void)error_set(&self->error, "payload: expected at most %zu bytes", STEP_PAYLOAD_MAX);
  }
  return self;
}

void queued_free(struct queued *self) {
  step_release(&self->step);
  free((char *)(uintptr_t)self->taken.payload);
  free(self);
}

void queue_release(struct queue *self) {
  for (struct queued *queued; (queued = queue_pop(self)) != NULL;)
    queued_free(queued);
}

bool queue_is_full(const struct queue *self) {
  return self->count == QUEUE_MOST || self->bytes >= QUEUE_BYTES;
}

void queue_push(struct queue *self, struct queued *queued) {
  self->items[self->count++] = queued;
  self->bytes += queued->taken.length;
}

static struct queued *take_out(struct queue *self, size_t at) {
  struct queued *queued = self->items[at];
  self->count--;
  self->bytes -= queued->taken.length;
  for (; at < self->count; at++)
    self->items[at] = self->items[at + 1];
  return queued;
}

struct queued *queue_pop(struct queue *self) {
  return self->count > 0 ? take_out(self, 0) : NULL;
}

struct queued *queue_take_run(struct queue *self, const char *step_id) {
  for (size_t i = 0; i < self->count; i++) {
    const struct queued *queued = self->items[i];
    if (!queued->refused && queued->step.kind == STEP_RUN &&
        strcmp(queued->step.step_id, step_id) == 0)
      return take_out(self, i);
  }
  return NULL;
}

void queue_forget_seen(struct queue *self) {
  for (size_t i = 0; i < self->count; i++)
    self->items[i]->seen = false;
}

bool queued_is(const struct queued *self, const struct taken *taken) {
  return self->taken.length == taken->length && self->taken.whole == taken->whole &&
         memcmp(self->taken.payload, taken->payload, taken->length) == 0;
}

bool queue_see(struct queue *self, const struct taken *taken) {
  for (size_t i = 0; i < self->count; i++)
    if (!self->items[i]->seen && queued_is(self->items[i], taken))
      return self->items[i]->seen = true;
  return false;
}
