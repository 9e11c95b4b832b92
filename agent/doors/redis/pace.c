#include "agent/doors/redis/pace.h"

void pace_init(struct pace *self, uint64_t per_second, uint64_t burst, int64_t now_ms) {
  *self = (struct pace){.per_second = burst > 0 ? per_second : 0,
                        .burst = (int64_t)(burst < PACE_BURST_MAX ? burst : PACE_BURST_MAX) * 1000,
                        .filled_ms = now_ms};
  self->left = self->burst;
}

void pace_refill(struct pace *self, int64_t now_ms) {
  if (self->per_second == 0)
    return;
  int64_t rate = (int64_t)self->per_second; /* thousandths a millisecond */
  int64_t passed_ms = now_ms - self->filled_ms;
  int64_t missing = self->burst - self->left;
  self->left = passed_ms > missing / rate ? self->burst : self->left + passed_ms * rate;
  self->filled_ms = now_ms;
}

int64_t pace_wait_ms(const struct pace *self) {
  if (pace_allows(self))
    return 0;
  int64_t rate = (int64_t)self->per_second;
  int64_t wait_ms = (1000 - self->left + rate - 1) / rate;
  return wait_ms > PACE_TICK_MS ? wait_ms : PACE_TICK_MS;
}
