#include "agent/engine/batcher.h"

void batcher_init(struct batcher *self, int64_t now_ms) {
  *self =
      (struct batcher){.newest_ms = now_ms - BATCHER_AGE_MS, .sent_ms = now_ms - BATCHER_AGE_MS};
}

void batcher_add(struct batcher *self, int64_t now_ms) {
  int64_t pause_ms = now_ms - self->newest_ms;
  if (pause_ms >= BATCHER_AGE_MS)
    self->quick = BATCHER_QUICK;
  if (self->lines++ == 0) {
    self->oldest_ms = now_ms;
    self->after_pause = pause_ms >= BATCHER_PAUSE_MS;
  }
  self->newest_ms = now_ms;
}

int64_t batcher_due_in_ms(const struct batcher *self, int64_t now_ms) {
  if (self->lines == 0)
    return -1;
  int64_t due_ms = self->oldest_ms + BATCHER_AGE_MS;
  if (self->quick > 0 && self->sent_ms + BATCHER_GAP_MS < due_ms)
    due_ms = self->sent_ms + BATCHER_GAP_MS;
  if (self->after_pause || self->lines >= BATCHER_LINES || now_ms >= due_ms)
    return 0;
  return due_ms - now_ms;
}

void batcher_flushed(struct batcher *self, int64_t now_ms) {
  if (self->lines > 0 && !self->after_pause && self->quick > 0)
    self->quick--;
  self->lines = 0;
  self->sent_ms = now_ms;
}
