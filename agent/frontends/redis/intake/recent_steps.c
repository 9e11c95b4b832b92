#include "agent/frontends/redis/intake/recent_steps.h"

#include <string.h>

#include "base/hash.h"

/* In the lowest bits of an entry; 0 is an empty one. From STARTED on the step was started. */
enum state {
  HELD = 1, /* Redis may hand out a copy */
  STARTED,
  STARTED_HELD, /* its answer is to come, or it was said to be lost; Redis may hand out a copy */
  ANSWERED      /* its answer is lost; Redis may hand it out */
};
#define STATE_MASK UINT64_C(7)

static uint64_t hash(const char *text) {
  return hash_bytes(text, strlen(text)) & ~STATE_MASK;
}

static enum state state_of(uint64_t entry) {
  return (enum state)(entry & STATE_MASK);
}

static bool is_step(uint64_t entry, uint64_t wanted) {
  return state_of(entry) != 0 && (entry & ~STATE_MASK) == wanted;
}

static bool is_started(uint64_t entry) {
  return state_of(entry) >= STARTED;
}

static void add(struct recent_steps *self, uint64_t entry) {
  self->entries[self->next] = entry;
  self->next = (self->next + 1) % RECENT_STEPS_MAX;
}

void recent_steps_add(struct recent_steps *self, const char *step_id) {
  add(self, hash(step_id) | STARTED);
}

size_t recent_steps_times(const struct recent_steps *self, const char *step_id) {
  uint64_t wanted = hash(step_id);
  size_t times = 0;
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++)
    times += is_step(self->entries[i], wanted) && is_started(self->entries[i]);
  return times;
}

/* Forgets those that were not started. */
static void become(struct recent_steps *self, enum state state) {
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++) {
    uint64_t *entry = &self->entries[i];
    *entry = is_started(*entry) ? (*entry & ~STATE_MASK) | state : 0;
  }
}

void recent_steps_roll_back(struct recent_steps *self) {
  become(self, ANSWERED);
}

void recent_steps_settle(struct recent_steps *self) {
  become(self, STARTED);
}

void recent_steps_hold(struct recent_steps *self, const char *step_id, bool started) {
  uint64_t wanted = hash(step_id), held = wanted | (started ? STARTED_HELD : HELD);
  for (size_t i = RECENT_STEPS_MAX; i-- > 0;) { /* the newest first */
    uint64_t *entry = &self->entries[(self->next + i) % RECENT_STEPS_MAX];
    if (is_step(*entry, wanted) && is_started(*entry) == started) {
      *entry = held;
      return;
    }
  }
  add(self, held);
}

enum recent_steps_verdict recent_steps_judge(struct recent_steps *self, const char *step_id) {
  uint64_t wanted = hash(step_id);
  enum recent_steps_verdict verdict = RECENT_STEPS_NEW;
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++) {
    uint64_t *entry = &self->entries[(self->next + i) % RECENT_STEPS_MAX]; /* the oldest first */
    if (!is_step(*entry, wanted) || state_of(*entry) == STARTED)
      continue;
    if (state_of(*entry) == ANSWERED) {
      *entry = wanted | STARTED_HELD;
      return RECENT_STEPS_ANSWERED;
    }
    verdict = RECENT_STEPS_HELD;
  }
  return verdict;
}

static bool is_sought(uint64_t entry) {
  return state_of(entry) != 0 && state_of(entry) != STARTED;
}

bool recent_steps_may_have_copies(const struct recent_steps *self) {
  size_t i = 0;
  while (i < RECENT_STEPS_MAX && !is_sought(self->entries[i]))
    i++;
  return i < RECENT_STEPS_MAX;
}

bool recent_steps_is_copy(const struct recent_steps *self, const char *step_id) {
  uint64_t wanted = hash(step_id);
  size_t i = 0;
  while (i < RECENT_STEPS_MAX &&
         !(is_step(self->entries[i], wanted) && is_sought(self->entries[i])))
    i++;
  return i < RECENT_STEPS_MAX;
}
