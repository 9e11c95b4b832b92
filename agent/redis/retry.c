#include "agent/redis/retry.h"

void retry_init(struct retry *self, bool patient) {
  *self = (struct retry){.patient = patient, .pause_ms = RETRY_BOOT_PAUSE_MS};
}

void retry_failed(struct retry *self) {
  self->attempts++;
}

bool retry_is_over(const struct retry *self) {
  return !self->succeeded && !self->patient && self->attempts >= RETRY_BOOT_ATTEMPTS;
}

bool retry_is_booting(const struct retry *self) {
  return !self->succeeded && self->attempts <= RETRY_BOOT_ATTEMPTS;
}

/* Half of it is random, but at boot, where a person may count. */
int retry_pause(struct retry *self, uint64_t random) {
  int pause_ms = self->pause_ms;
  self->pause_ms *= 2;
  if (self->pause_ms > RETRY_PAUSE_MAX_MS)
    self->pause_ms = RETRY_PAUSE_MAX_MS;
  if (!self->succeeded)
    return pause_ms;
  return pause_ms / 2 + (int)(random % (unsigned)(pause_ms / 2 + 1));
}

void retry_succeeded(struct retry *self) {
  self->attempts = 0;
  if (!self->succeeded)
    self->pause_ms = RETRY_PAUSE_MIN_MS;
  self->succeeded = true;
}

void retry_works(struct retry *self) {
  self->pause_ms = RETRY_PAUSE_MIN_MS;
}
