#include "agent/doors/call_progress.h"

#include "base/utf8.h"

struct call_progress call_progress_begin(int64_t now_ms) {
  return (struct call_progress){.start_ms = now_ms, .last_ms = now_ms};
}

static int64_t least_ms(const struct call_progress *self) {
  return self->last_ms + (self->reported ? CALL_PROGRESS_PACE_MS : CALL_PROGRESS_FIRST_MS);
}

int64_t call_progress_wait(const struct call_progress *self, int64_t now_ms) {
  int64_t left = least_ms(self) - now_ms;
  return left > 0 ? left : CALL_PROGRESS_PACE_MS;
}

bool call_progress_is_due(struct call_progress *self, int64_t now_ms, uint64_t output) {
  bool is_news = !self->reported || output != self->output;
  if (now_ms < (is_news ? least_ms(self) : self->last_ms + CALL_PROGRESS_BEAT_MS))
    return false;
  self->last_ms = now_ms;
  self->reported = true;
  self->output = output;
  return true;
}

size_t call_progress_cut(const char *line, size_t length) {
  size_t at = 0;
  for (int i = 0; i < CALL_PROGRESS_CHARACTERS && at < length; i++) {
    size_t n = utf8_sequence(line + at, length - at);
    at += n > 0 ? n : utf8_broken(line + at, length - at);
  }
  return at;
}
