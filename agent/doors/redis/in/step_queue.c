#include "agent/doors/redis/in/step_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/kinds/kinds.h"
#include "agent/payload_limit.h"
#include "base/hash.h"
#include "base/memory.h"

static_assert(sizeof(struct step_record) == 24, "the size that STEP_QUEUE_RECORDS_MAX counts on");
static_assert(STEP_PAYLOAD_MAX <= UINT32_MAX, "a length fits into a record");

#define RECORDS_MIN 256

struct claimed_step *claimed_step_new(const struct claimed *claimed) {
  struct claimed_step *self = memory_allocate(sizeof *self);
  *self = (struct claimed_step){.claimed = *claimed};
  self->claimed.payload = memory_copy(claimed->payload, claimed->length);
  self->refused =
      step_parse(&self->step, kinds, claimed->payload, claimed->length, &self->error) != 0;
  if (claimed->truncated) {
    self->refused = true;
    payload_limit_error(&self->error);
  }
  return self;
}

void claimed_step_free(struct claimed_step *self) {
  step_release(&self->step);
  free((char *)(uintptr_t)self->claimed.payload);
  free(self);
}

bool claimed_step_is(const struct claimed_step *self, const struct claimed *claimed) {
  return self->claimed.length == claimed->length && self->claimed.truncated == claimed->truncated &&
         memcmp(self->claimed.payload, claimed->payload, claimed->length) == 0;
}

static bool runs(const struct claimed_step *step) {
  return !step->refused && step_is_work(&step->step);
}

void step_queue_release(struct step_queue *self) {
  for (struct claimed_step *step; (step = step_queue_pop(self)) != NULL;)
    claimed_step_free(step);
  step_queue_drop_records(self);
}

bool step_queue_is_empty(const struct step_queue *self) {
  return self->count == 0 && self->record_count == 0;
}

static bool is_full(const struct step_queue *self) {
  return self->count == STEP_QUEUE_MAX || self->bytes >= payload_limit();
}

static size_t memory_of(const struct claimed_step *step) {
  return step->claimed.length + (step->refused ? 0 : step->step.memory);
}

static void put_in(struct step_queue *self, struct claimed_step *step, size_t place) {
  for (size_t i = self->count++; i > place; i--)
    self->items[i] = self->items[i - 1];
  self->items[place] = step;
  self->bytes += memory_of(step);
}

static struct claimed_step *take_out(struct step_queue *self, size_t at) {
  struct claimed_step *step = self->items[at];
  self->count--;
  self->bytes -= memory_of(step);
  if (self->place > at)
    self->place--;
  for (; at < self->count; at++)
    self->items[at] = self->items[at + 1];
  return step;
}

const struct claimed_step *step_queue_oldest(const struct step_queue *self) {
  return self->count > 0 ? self->items[0] : NULL;
}

struct claimed_step *step_queue_pop(struct step_queue *self) {
  return self->count > 0 ? take_out(self, 0) : NULL;
}

struct step_record *step_queue_record(const struct step_queue *self, size_t number) {
  return &self->records[self->first + number];
}

/* Makes room for one more: moves them to the beginning when at least half of it is free, so that
   taking one costs the same however many there are. */
static void make_room(struct step_queue *self) {
  if (self->first + self->record_count < self->capacity)
    return;
  if (self->capacity > 0 && self->first >= self->capacity / 2) {
    memmove(self->records, step_queue_record(self, 0), self->record_count * sizeof *self->records);
    self->first = 0;
    return;
  }
  self->capacity = self->capacity > 0 ? 2 * self->capacity : RECORDS_MIN;
  self->records = memory_resize(self->records, self->capacity * sizeof *self->records);
}

/* Puts the record of a step, which it frees, in front of that with this number. */
static void put_record(struct step_queue *self, struct claimed_step *step, size_t number) {
  const struct claimed *claimed = &step->claimed;
  if (number == 0 && self->first > 0) {
    self->first--;
  } else {
    make_room(self);
    struct step_record *at = step_queue_record(self, number);
    memmove(at + 1, at, (self->record_count - number) * sizeof *at);
  }
  self->record_count++;
  *step_queue_record(self, number) =
      (struct step_record){.payload = hash_bytes(claimed->payload, claimed->length),
                           .step_id = hash_bytes(step->step.step_id, strlen(step->step.step_id)),
                           .length = (uint32_t)claimed->length,
                           .truncated = claimed->truncated,
                           .runs = runs(step),
                           .seen = step->seen};
  claimed_step_free(step);
}

void step_queue_drop_records(struct step_queue *self) {
  free(self->records);
  self->records = NULL;
  self->first = self->record_count = self->capacity = 0;
}

void step_queue_remove_record(struct step_queue *self, size_t number) {
  struct step_record *at = step_queue_record(self, number);
  self->record_count--;
  if (self->place > self->count + number)
    self->place--;
  if (number == 0)
    self->first++;
  else
    memmove(at, at + 1, (self->record_count - number) * sizeof *at);
  if (self->record_count == 0)
    step_queue_drop_records(self);
}

bool step_queue_has_room(const struct step_queue *self) {
  return self->record_count < STEP_QUEUE_RECORDS_MAX;
}

void step_queue_push(struct step_queue *self, struct claimed_step *step) {
  if (self->record_count == 0 && !is_full(self))
    put_in(self, step, self->count);
  else
    put_record(self, step, self->record_count);
}

enum step_queue_cancel step_queue_cancel(struct step_queue *self, const char *step_id,
                                         struct claimed_step **step, size_t *number) {
  for (size_t i = 0; i < self->count; i++) {
    if (runs(self->items[i]) && strcmp(self->items[i]->step.step_id, step_id) == 0) {
      *step = take_out(self, i);
      return STEP_QUEUE_TAKEN_OUT;
    }
  }
  uint64_t hash = hash_bytes(step_id, strlen(step_id));
  for (size_t i = 0; i < self->record_count; i++) {
    struct step_record *record = step_queue_record(self, i);
    if (record->step_id == hash && record->runs && !record->cancelled) {
      record->cancelled = true;
      *number = i;
      return STEP_QUEUE_MARKED;
    }
  }
  return STEP_QUEUE_NONE;
}

bool step_record_is(const struct step_record *self, const struct claimed *claimed) {
  return self->length == claimed->length && self->truncated == claimed->truncated &&
         self->payload == hash_bytes(claimed->payload, claimed->length);
}

size_t step_queue_first_cancelled(const struct step_queue *self) {
  size_t number = 0;
  while (number < self->record_count && !step_queue_record(self, number)->cancelled)
    number++;
  return number;
}

bool step_queue_can_reload(const struct step_queue *self) {
  return self->record_count > 0 && !is_full(self) && !step_queue_record(self, 0)->cancelled;
}

bool step_queue_wants_more(const struct step_queue *self) {
  return step_queue_can_reload(self) && self->count <= STEP_QUEUE_MAX / 2 &&
         self->bytes <= payload_limit() / 2;
}

bool step_queue_reload(struct step_queue *self, const struct claimed *claimed) {
  if (!step_queue_can_reload(self) || !step_record_is(step_queue_record(self, 0), claimed))
    return false;
  bool seen = step_queue_record(self, 0)->seen;
  size_t place = self->place;
  step_queue_remove_record(self, 0);
  struct claimed_step *step = claimed_step_new(claimed);
  step->seen = seen;
  put_in(self, step, self->count);
  self->place = place;
  return true;
}

void step_queue_drop(struct step_queue *self,
                     bool (*drop)(void *owner, const struct claimed_step *step), void *owner) {
  for (size_t i = 0; i < self->count;)
    if (drop(owner, self->items[i]))
      claimed_step_free(take_out(self, i));
    else
      i++;
}

void step_queue_begin_peek(struct step_queue *self) {
  for (size_t i = 0; i < self->count; i++)
    self->items[i]->seen = false;
  self->place = 0;
}

void step_queue_begin_scan(struct step_queue *self) {
  step_queue_begin_peek(self);
  for (size_t i = 0; i < self->record_count; i++)
    step_queue_record(self, i)->seen = false;
}

bool step_queue_expects(const struct step_queue *self, const struct claimed *claimed) {
  return self->place >= self->count && self->place < self->count + self->record_count &&
         step_record_is(step_queue_record(self, self->place - self->count), claimed);
}

bool step_queue_see(struct step_queue *self, const struct claimed *claimed) {
  for (size_t i = 0; i < self->count; i++) {
    if (self->items[i]->seen || !claimed_step_is(self->items[i], claimed))
      continue;
    if (self->place <= i)
      self->place = i + 1;
    return self->items[i]->seen = true;
  }
  return false;
}

/* In order, so that what was seen before is not compared again. */
bool step_queue_see_record(struct step_queue *self, const struct claimed *claimed, size_t *number) {
  size_t from = self->place > self->count ? self->place - self->count : 0;
  if (from == self->record_count)
    return false;
  uint64_t hash = hash_bytes(claimed->payload, claimed->length);
  for (size_t i = from; i < self->record_count; i++) {
    struct step_record *record = step_queue_record(self, i);
    if (record->payload != hash || record->length != claimed->length ||
        record->truncated != claimed->truncated)
      continue;
    self->place = self->count + i + 1;
    *number = i;
    return record->seen = true;
  }
  return false;
}

void step_queue_insert(struct step_queue *self, struct claimed_step *step) {
  size_t place = self->place++;
  while (is_full(self) && place < self->count) {
    struct claimed_step *newest = self->items[self->count - 1];
    self->count--;
    self->bytes -= memory_of(newest);
    put_record(self, newest, 0);
  }
  if (place < self->count || (place == self->count && !is_full(self)))
    put_in(self, step, place);
  else
    put_record(self, step, place - self->count);
}

size_t step_queue_drop_unseen(struct step_queue *self) {
  size_t kept = 0;
  for (size_t i = 0; i < self->record_count; i++)
    if (step_queue_record(self, i)->seen)
      *step_queue_record(self, kept++) = *step_queue_record(self, i);
  size_t dropped = self->record_count - kept;
  self->record_count = kept;
  if (kept == 0)
    step_queue_drop_records(self);
  return dropped;
}
