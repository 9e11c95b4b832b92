#include "agent/doors/redis/in/recent_steps.h"

#include <stdbool.h>
#include <string.h>

#include "base/hash.h"

/* In the lowest bits of an entry; 0 is an empty one. */
enum state {
  STARTED = 1,
  HELD = 2,         /* not started; redis may hand out a copy */
  STARTED_HELD = 3, /* its answer is to come; redis may hand out a copy */
  ANSWERED = 4      /* its answer is lost; redis may hand it out */
};
#define STATE_MASK UINT64_C(7)

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

static enum state state_of(uint64_t entry) {
  return (enum state)(entry & STATE_MASK);
}

static void set_state(uint64_t *entry, enum state state) {
  *entry = (*entry & ~STATE_MASK) | state;
}

static bool is_step(uint64_t entry, uint64_t wanted) {
  return (entry & STATE_MASK) != 0 && (entry & ~STATE_MASK) == wanted;
}

void recent_steps_roll_back(struct recent_steps *self) {
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++) {
    enum state state = state_of(self->entries[i]);
    if (state == STARTED || state == STARTED_HELD)
      set_state(&self->entries[i], ANSWERED);
    else if (state == HELD)
      self->entries[i] = 0;
  }
}

void recent_steps_hold(struct recent_steps *self, const char *step_id) {
  uint64_t wanted = hash(step_id);
  uint64_t *started = NULL;
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++) {
    uint64_t *entry = &self->entries[(self->next + i) % RECENT_STEPS_MAX];
    enum state state = state_of(*entry);
    if (!is_step(*entry, wanted))
      continue;
    if (state == HELD || state == STARTED_HELD)
      return;
    if (state == ANSWERED)
      started = entry; /* the newest in the end */
  }
  if (started != NULL)
    set_state(started, STARTED_HELD);
  else
    add(self, wanted | HELD);
}

/* It is handed out no more before the next rollback. */
static void close_entry(uint64_t *entry) {
  if (state_of(*entry) == HELD)
    *entry = 0;
  else if (state_of(*entry) != 0)
    set_state(entry, STARTED);
}

void recent_steps_settle(struct recent_steps *self) {
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++)
    close_entry(&self->entries[i]);
}

enum recent_steps_verdict recent_steps_judge(struct recent_steps *self, const char *step_id) {
  uint64_t wanted = hash(step_id);
  for (size_t i = 0; i < RECENT_STEPS_MAX; i++) {
    uint64_t *entry = &self->entries[(self->next + i) % RECENT_STEPS_MAX]; /* the oldest first */
    enum state state = state_of(*entry);
    if (!is_step(*entry, wanted) || state == STARTED)
      continue;
    close_entry(entry);
    return state == ANSWERED ? RECENT_STEPS_ANSWERED : RECENT_STEPS_HELD;
  }
  return RECENT_STEPS_NEW;
}
