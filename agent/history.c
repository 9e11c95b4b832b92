#include "agent/history.h"

#include <string.h>

#include "base/hash.h"

/* In the lowest bits of an entry; 0 is an empty one. */
enum state { STARTED = 1, HELD = 2, ANSWERED = 3 };
#define STATE_MASK UINT64_C(3)

static uint64_t hash(const char *text) {
  return hash_bytes(text, strlen(text)) & ~STATE_MASK;
}

static void add(struct history *self, uint64_t entry) {
  self->entries[self->next] = entry;
  self->next = (self->next + 1) % HISTORY_MOST;
}

void history_add(struct history *self, const char *step_id) {
  add(self, hash(step_id) | STARTED);
}

size_t history_times(const struct history *self, const char *step_id) {
  uint64_t wanted = hash(step_id) | STARTED;
  size_t times = 0;
  for (size_t i = 0; i < HISTORY_MOST; i++)
    times += self->entries[i] == wanted;
  return times;
}

void history_roll_back(struct history *self) {
  for (size_t i = 0; i < HISTORY_MOST; i++) {
    uint64_t state = self->entries[i] & STATE_MASK;
    if (state == STARTED)
      self->entries[i] |= ANSWERED;
    else if (state == HELD)
      self->entries[i] = 0;
  }
}

void history_hold(struct history *self, const char *step_id) {
  uint64_t wanted = hash(step_id);
  for (size_t i = 0; i < HISTORY_MOST; i++) {
    if (self->entries[i] == (wanted | HELD))
      return;
    if (self->entries[i] == (wanted | ANSWERED))
      self->entries[i] = 0;
  }
  add(self, wanted | HELD);
}

void history_settle(struct history *self) {
  for (size_t i = 0; i < HISTORY_MOST; i++)
    if ((self->entries[i] & STATE_MASK) != STARTED)
      self->entries[i] = 0;
}

enum history_verdict history_judge(struct history *self, const char *step_id) {
  uint64_t wanted = hash(step_id);
  for (size_t i = 0; i < HISTORY_MOST; i++) {
    uint64_t state = self->entries[i] & STATE_MASK;
    if ((self->entries[i] & ~STATE_MASK) != wanted || (state != HELD && state != ANSWERED))
      continue;
    self->entries[i] = 0;
    return state == HELD ? HISTORY_HELD : HISTORY_ANSWERED;
  }
  return HISTORY_NEW;
}
