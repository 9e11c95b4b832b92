#include "agent/doors/redis/in/step_queue.h"

#include <stdlib.h>
#include <string.h>

#include "agent/kinds/kinds.h"
#include "base/memory.h"

struct claimed_step *claimed_step_new(const struct claimed *claimed) {
  struct claimed_step *self = memory_allocate(sizeof *self);
  *self = (struct claimed_step){.claimed = *claimed};
  self->claimed.payload = memory_copy(claimed->payload, claimed->length);
  self->refused =
      step_parse(&self->step, kinds, claimed->payload, claimed->length, &self->error) != 0;
  if (claimed->truncated) {
    self->refused = true;
    (void)error_set(&self->error, "payload: expected at most %zu bytes", STEP_PAYLOAD_MAX);
  }
  return self;
}

void claimed_step_free(struct claimed_step *self) {
  step_release(&self->step);
  free((char *)(uintptr_t)self->claimed.payload);
  free(self);
}

void step_queue_release(struct step_queue *self) {
  for (struct claimed_step *queued; (queued = step_queue_pop(self)) != NULL;)
    claimed_step_free(queued);
}

bool step_queue_is_full(const struct step_queue *self) {
  return self->count == STEP_QUEUE_MAX || self->bytes >= STEP_QUEUE_BYTES;
}

static struct claimed_step *take_out(struct step_queue *self, size_t at) {
  struct claimed_step *queued = self->items[at];
  self->count--;
  self->bytes -= queued->claimed.length;
  for (; at < self->count; at++)
    self->items[at] = self->items[at + 1];
  return queued;
}

struct claimed_step *step_queue_pop(struct step_queue *self) {
  return self->count > 0 ? take_out(self, 0) : NULL;
}

struct claimed_step *step_queue_take_run(struct step_queue *self, const char *step_id) {
  for (size_t i = 0; i < self->count; i++) {
    const struct claimed_step *queued = self->items[i];
    if (!queued->refused && step_is_work(&queued->step) &&
        strcmp(queued->step.step_id, step_id) == 0)
      return take_out(self, i);
  }
  return NULL;
}

void step_queue_drop(struct step_queue *self,
                     bool (*drop)(void *owner, const struct claimed_step *queued), void *owner) {
  for (size_t i = 0; i < self->count;)
    if (drop(owner, self->items[i]))
      claimed_step_free(take_out(self, i));
    else
      i++;
}

void step_queue_forget_seen(struct step_queue *self) {
  for (size_t i = 0; i < self->count; i++)
    self->items[i]->seen = false;
}

bool claimed_step_is(const struct claimed_step *self, const struct claimed *claimed) {
  return self->claimed.length == claimed->length && self->claimed.truncated == claimed->truncated &&
         memcmp(self->claimed.payload, claimed->payload, claimed->length) == 0;
}

static void put_in(struct step_queue *self, struct claimed_step *queued, size_t place) {
  for (size_t i = self->count++; i > place; i--)
    self->items[i] = self->items[i - 1];
  self->items[place] = queued;
  self->bytes += queued->claimed.length;
}

size_t step_queue_behind_seen(const struct step_queue *self) {
  size_t place = self->count;
  while (place > 0 && !self->items[place - 1]->seen)
    place--;
  return place;
}

bool step_queue_see(struct step_queue *self, const struct claimed *claimed) {
  for (size_t i = 0; i < self->count; i++)
    if (!self->items[i]->seen && claimed_step_is(self->items[i], claimed))
      return self->items[i]->seen = true;
  return false;
}

struct claimed_step *step_queue_insert(struct step_queue *self, struct claimed_step *queued,
                                       size_t place) {
  struct claimed_step *newest =
      self->count == STEP_QUEUE_MAX ? take_out(self, self->count - 1) : NULL;
  put_in(self, queued, place);
  return newest;
}
