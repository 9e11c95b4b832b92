#include "agent/doors/redis/client/backoff.h"

void backoff_init(struct backoff *self, bool patient) {
  *self = (struct backoff){.patient = patient, .pause_ms = BACKOFF_BOOT_PAUSE_MS};
}

void backoff_failed(struct backoff *self) {
  self->attempts++;
}

bool backoff_is_over(const struct backoff *self) {
  return !self->succeeded && !self->patient && self->attempts >= BACKOFF_BOOT_ATTEMPTS;
}

bool backoff_is_booting(const struct backoff *self) {
  return !self->succeeded && self->attempts <= BACKOFF_BOOT_ATTEMPTS;
}

/* Half of it is random, but at boot, where a person may count. */
int backoff_pause(struct backoff *self, uint64_t random) {
  int pause_ms = self->pause_ms;
  self->pause_ms *= 2;
  if (self->pause_ms > BACKOFF_PAUSE_MAX_MS)
    self->pause_ms = BACKOFF_PAUSE_MAX_MS;
  if (!self->succeeded)
    return pause_ms;
  return pause_ms / 2 + (int)(random % (unsigned)(pause_ms / 2 + 1));
}

void backoff_succeeded(struct backoff *self) {
  self->attempts = 0;
  if (!self->succeeded)
    self->pause_ms = BACKOFF_PAUSE_MIN_MS;
  self->succeeded = true;
}

void backoff_works(struct backoff *self) {
  self->pause_ms = BACKOFF_PAUSE_MIN_MS;
}
