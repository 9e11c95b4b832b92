#include "agent/frontends/redis/intake/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "agent/engine/secrets.h"
#include "agent/kinds/kind.h"
#include "agent/payload_limit.h"
#include "base/check.h"
#include "base/memory.h"

struct claimed_step *claimed_step_new(const struct claimed *claimed) {
  struct claimed_step *self = memory_allocate(sizeof *self);
  *self = (struct claimed_step){.claimed = *claimed, .listed = true};
  self->claimed.payload = memory_copy(claimed->payload, claimed->length);
  self->refused =
      step_parse(&self->step, kinds, claimed->payload, claimed->length, &self->error) != 0 ||
      secrets_check(&self->step, &self->error) != 0;
  self->step_id = memory_copy(self->step.step_id, strlen(self->step.step_id));
  if (claimed->truncated) {
    self->refused = true;
    payload_limit_error(&self->error);
  }
  return self;
}

static void release_payload(struct claimed_step *self) {
  if (self->state != STEP_ANSWERED)
    free((char *)(uintptr_t)self->claimed.payload);
  step_release(&self->step);
}

void claimed_step_free(struct claimed_step *self) {
  release_payload(self);
  free(self->step_id);
  free(self);
}

bool claimed_step_is_order(const struct claimed_step *self) {
  return self->state == STEP_CLAIMED && !self->refused && self->step.kind == &step_cancel;
}

bool claimed_step_waits(const struct claimed_step *self) {
  return self->state == STEP_CLAIMED && !claimed_step_is_order(self);
}

bool claimed_step_is_missing(const struct claimed_step *self) {
  return self->state != STEP_ANSWERED && !claimed_step_is_order(self) && self->listed &&
         !self->seen;
}

/* Of a truncated one only that it is one: such are removed in their order. */
static bool is_same(const struct claimed_step *step, const struct claimed *claimed) {
  if (step->claimed.truncated || claimed->truncated)
    return step->claimed.truncated == claimed->truncated;
  return step->claimed.length == claimed->length &&
         memcmp(step->claimed.payload, claimed->payload, claimed->length) == 0;
}

/* Adds it to the sums, or takes it from them. */
static void count(struct ledger *self, const struct claimed_step *step, bool in) {
  size_t one = in ? 1 : SIZE_MAX;
  size_t memory = step->claimed.length + (step->refused ? 0 : step->step.memory);
  self->orders += claimed_step_is_order(step) ? one : 0;
  self->order_bytes += claimed_step_is_order(step) ? one * step->claimed.length : 0;
  self->sought -= !in && claimed_step_is_order(step) && step->sought;
  self->waiting += claimed_step_waits(step) ? one : 0;
  self->bytes += claimed_step_waits(step) ? one * memory : 0;
}

/* Puts it behind `older`; NULL: it is the oldest. */
static void link_behind(struct ledger *self, struct claimed_step *older,
                        struct claimed_step *step) {
  step->older = older;
  step->newer = older != NULL ? older->newer : self->oldest;
  *(older != NULL ? &older->newer : &self->oldest) = step;
  *(step->newer != NULL ? &step->newer->older : &self->newest) = step;
  count(self, step, true);
}

static void unlink_step(struct ledger *self, struct claimed_step *step) {
  *(step->older != NULL ? &step->older->newer : &self->oldest) = step->newer;
  *(step->newer != NULL ? &step->newer->older : &self->newest) = step->older;
  if (self->edge == step)
    self->edge = step->older;
  if (self->met == step)
    self->met = step->older;
  count(self, step, false);
}

void ledger_drop(struct ledger *self, struct claimed_step *step) {
  unlink_step(self, step);
  claimed_step_free(step);
}

void ledger_release(struct ledger *self) {
  while (self->oldest != NULL)
    ledger_drop(self, self->oldest);
}

void ledger_append(struct ledger *self, struct claimed_step *step) {
  link_behind(self, self->newest, step);
}

void ledger_append_behind(struct ledger *self, struct claimed_step *step) {
  if (self->behind++ == 0)
    self->edge = self->newest;
  claimed_step_free(step);
}

struct claimed_step *ledger_oldest_waiting(const struct ledger *self) {
  struct claimed_step *step = self->oldest;
  while (step != NULL && !claimed_step_waits(step))
    step = step->newer;
  return step;
}

struct claimed_step *ledger_find(const struct ledger *self, const char *step_id) {
  struct claimed_step *step = self->oldest;
  while (step != NULL && (!claimed_step_waits(step) || step->refused ||
                          !step_is_work(&step->step) || strcmp(step->step_id, step_id) != 0))
    step = step->newer;
  return step;
}

struct claimed_step *ledger_find_order(const struct ledger *self, const char *step_id) {
  struct claimed_step *step = self->orders > 0 ? self->oldest : NULL;
  while (step != NULL &&
         (!claimed_step_is_order(step) || step->seen || strcmp(step->step_id, step_id) != 0))
    step = step->newer;
  return step;
}

bool ledger_has_shutdown(const struct ledger *self) {
  const struct claimed_step *step = self->oldest;
  while (step != NULL && (!claimed_step_waits(step) || step->refused || step_is_work(&step->step)))
    step = step->newer;
  return step != NULL;
}

void ledger_drop_orders(struct ledger *self) {
  for (struct claimed_step *step = self->oldest, *newer; step != NULL; step = newer) {
    newer = step->newer;
    if (claimed_step_is_order(step))
      ledger_drop(self, step);
  }
}

void ledger_begin(struct ledger *self, struct claimed_step *step, bool announced) {
  CHECK(claimed_step_waits(step) && self->begun == NULL);
  count(self, step, false);
  step->state = STEP_BEGUN;
  step->announced = announced;
  self->begun = step;
}

void ledger_answer(struct ledger *self, struct claimed_step *step, struct piece_place place) {
  CHECK(step->state != STEP_ANSWERED);
  count(self, step, false);
  release_payload(step);
  if (self->begun == step)
    self->begun = NULL;
  step->state = STEP_ANSWERED;
  step->claimed.payload = place.payload;
  step->place = place;
}

void ledger_delivered(struct ledger *self, uint64_t gone) {
  for (struct claimed_step *step = self->oldest, *newer; step != NULL; step = newer) {
    newer = step->newer;
    if (step->state == STEP_ANSWERED && step->place.end <= gone)
      ledger_drop(self, step);
  }
}

void ledger_begin_pass(struct ledger *self, bool from_edge) {
  bool in_front = from_edge && self->edge != NULL;
  self->met = in_front ? self->edge : NULL;
  self->passed = 0;
  self->sought = from_edge ? self->orders : 0;
  self->whole = !from_edge;
  for (struct claimed_step *step = self->oldest; step != NULL; step = step->newer) {
    step->seen = in_front;
    step->sought = from_edge && claimed_step_is_order(step);
    in_front &= step != self->edge;
  }
}

size_t ledger_position(const struct ledger *self) {
  size_t position = 1 + self->passed;
  for (const struct claimed_step *step = self->oldest; step != NULL; step = step->newer)
    position += step->seen && step->listed;
  return position;
}

struct claimed_step *ledger_meet(struct ledger *self, const struct claimed *claimed) {
  bool behind = self->met == NULL;
  for (struct claimed_step *step = self->oldest; step != NULL; step = step->newer) {
    if (!step->seen && step->listed && is_same(step, claimed)) {
      step->seen = true;
      if (behind)
        self->met = step;
      return step;
    }
    behind |= step == self->met;
  }
  return NULL;
}

bool ledger_is_last(const struct ledger *self, const struct claimed *claimed) {
  return self->met != NULL && is_same(self->met, claimed);
}

bool ledger_is_inside(const struct ledger *self) {
  const struct claimed_step *step = self->met != NULL ? self->met->newer : self->oldest;
  while (step != NULL && !claimed_step_waits(step))
    step = step->newer;
  return step != NULL;
}

void ledger_insert(struct ledger *self, struct claimed_step *step) {
  if (claimed_step_waits(step) && self->passed == 0 && !ledger_is_inside(self))
    self->edge = step;
  step->seen = true;
  link_behind(self, self->met, step);
  self->met = step;
}

void ledger_pass(struct ledger *self, struct claimed_step *step) {
  if (self->passed++ == 0 && self->whole)
    self->edge = self->met;
  claimed_step_free(step);
}

void ledger_end_pass(struct ledger *self, bool complete) {
  self->behind = self->passed;
  for (struct claimed_step *step = self->oldest; complete && step != NULL; step = step->newer)
    if (step->state == STEP_ANSWERED || claimed_step_is_order(step))
      step->listed &= step->seen;
}

bool ledger_leave_newest(struct ledger *self) {
  struct claimed_step *step = self->newest;
  while (step != NULL && !claimed_step_waits(step))
    step = step->older;
  if (step == NULL || step->returned || step->seen)
    return false;
  self->behind++;
  self->edge = step->older;
  ledger_drop(self, step);
  return true;
}
