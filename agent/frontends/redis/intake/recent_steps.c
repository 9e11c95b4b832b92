#include "agent/frontends/redis/intake/recent_steps.h"

#include <string.h>

#include "base/hash.h"

/* The lowest bits of an entry; 0 is an empty entry. In the states from STARTED on, the step was
   started. */
enum recent_state {
  WAITING = 1,     /* in memory, and not started; a redelivered step is a duplicate */
  STARTED,         /* a redelivered step is new */
  STARTED_PENDING, /* the answer will be delivered or says that the result is lost; a redelivered
                      step is a duplicate */
  RESULT_LOST      /* the result is lost; a redelivered step is answered with that */
};
#define STATE_MASK UINT64_C(7)

static uint64_t hash(const char *text) {
  return hash_bytes(text, strlen(text)) & ~STATE_MASK;
}

static enum recent_state state_of(uint64_t entry) {
  return (enum recent_state)(entry & STATE_MASK);
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

/* Counts the entries with one of these states, of a step or (NULL) of all steps. */
static size_t count(const struct recent_steps *self, const char *step_id, unsigned states) {
  uint64_t wanted = step_id != NULL ? hash(step_id) : 0;
  size_t found = 0;
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++)
    found += (states & 1U << state_of(self->entries[i])) != 0 &&
             (step_id == NULL || is_step(self->entries[i], wanted));
  return found;
}

size_t recent_steps_count_starts(const struct recent_steps *self, const char *step_id) {
  return count(self, step_id, 1U << STARTED | 1U << STARTED_PENDING | 1U << RESULT_LOST);
}

bool recent_steps_is_pending(const struct recent_steps *self, const char *step_id) {
  return count(self, step_id, 1U << WAITING | 1U << STARTED_PENDING) > 0;
}

bool recent_steps_has_redeliverable(const struct recent_steps *self) {
  return count(self, NULL, 1U << WAITING | 1U << STARTED_PENDING | 1U << RESULT_LOST) > 0;
}

/* Changes the state of all started steps, and forgets the others. */
static void set_states(struct recent_steps *self, enum recent_state state) {
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++) {
    uint64_t *entry = &self->entries[i];
    *entry = is_started(*entry) ? (*entry & ~STATE_MASK) | state : 0;
  }
}

void recent_steps_roll_back(struct recent_steps *self) {
  set_states(self, RESULT_LOST);
}

void recent_steps_end_redelivery(struct recent_steps *self) {
  set_states(self, STARTED);
}

void recent_steps_mark_pending(struct recent_steps *self, const char *step_id, bool started) {
  uint64_t wanted = hash(step_id), pending = wanted | (started ? STARTED_PENDING : WAITING);
  for (size_t i = RECENT_STEPS_MAX; i-- > 0;) { /* the newest first */
    uint64_t *entry = &self->entries[(self->next + i) % RECENT_STEPS_MAX];
    if (is_step(*entry, wanted) && is_started(*entry) == started) {
      *entry = pending;
      return;
    }
  }
  add(self, pending);
}

enum recent_steps_class recent_steps_classify(struct recent_steps *self, const char *step_id) {
  uint64_t wanted = hash(step_id);
  enum recent_steps_class class = RECENT_STEPS_NEW;
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++) {
    uint64_t *entry = &self->entries[(self->next + i) % RECENT_STEPS_MAX]; /* the oldest first */
    if (!is_step(*entry, wanted) || state_of(*entry) == STARTED)
      continue;
    if (state_of(*entry) == RESULT_LOST) {
      *entry = wanted | STARTED_PENDING;
      return RECENT_STEPS_RESULT_LOST;
    }
    class = RECENT_STEPS_DUPLICATE;
  }
  return class;
}
