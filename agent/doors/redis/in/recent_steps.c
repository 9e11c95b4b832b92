#include "agent/doors/redis/in/recent_steps.h"

#include <string.h>

#include "base/hash.h"

/* In the lowest bits of an entry; 0 is an empty one. */
enum state { STARTED = 1, HELD = 2, ANSWERED = 3 };
#define STATE_MASK UINT64_C(3)

static uint64_t hash(const char *text) {
  return hash_bytes(text, strlen(text)) & ~STATE_MASK;
}

static void add(struct recent_steps *self, uint64_t entry) {
  self->entries[self->next] = entry;
  self->next = (self->next + 1) % RECENT_STEPS_MAX;
}

void recent_steps_add(struct recent_steps *self, const char *step_id) {
  add(self, hash(step_id) | STARTED);
}

size_t recent_steps_times(const struct recent_steps *self, const char *step_id) {
  uint64_t wanted = hash(step_id) | STARTED;
  size_t times = 0;
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++)
    times += self->entries[i] == wanted;
  return times;
}

void recent_steps_roll_back(struct recent_steps *self) {
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++) {
    uint64_t state = self->entries[i] & STATE_MASK;
    if (state == STARTED)
      self->entries[i] |= ANSWERED;
    else if (state == HELD)
      self->entries[i] = 0;
  }
}

void recent_steps_hold(struct recent_steps *self, const char *step_id) {
  uint64_t wanted = hash(step_id);
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++) {
    if (self->entries[i] == (wanted | HELD))
      return;
    if (self->entries[i] == (wanted | ANSWERED))
      self->entries[i] = 0;
  }
  add(self, wanted | HELD);
}

void recent_steps_settle(struct recent_steps *self) {
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++)
    if ((self->entries[i] & STATE_MASK) != STARTED)
      self->entries[i] = 0;
}

enum recent_steps_verdict recent_steps_judge(struct recent_steps *self, const char *step_id) {
  uint64_t wanted = hash(step_id);
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++) {
    uint64_t state = self->entries[i] & STATE_MASK;
    if ((self->entries[i] & ~STATE_MASK) != wanted || (state != HELD && state != ANSWERED))
      continue;
    self->entries[i] = 0;
    return state == HELD ? RECENT_STEPS_HELD : RECENT_STEPS_ANSWERED;
  }
  return RECENT_STEPS_NEW;
}
