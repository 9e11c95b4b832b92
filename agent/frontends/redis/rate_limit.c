#include "agent/frontends/redis/rate_limit.h"

void rate_limit_init(struct rate_limit *self, uint64_t per_second, uint64_t burst, int64_t now_ms) {
  *self = (struct rate_limit){
      .per_second = burst > 0 ? per_second : 0,
      .burst = (int64_t)(burst < RATE_LIMIT_BURST_MAX ? burst : RATE_LIMIT_BURST_MAX) * 1000,
      .filled_ms = now_ms};
  self->left = self->burst;
}

void rate_limit_refill(struct rate_limit *self, int64_t now_ms) {
  if (self->per_second == 0)
    return;
  int64_t rate = (int64_t)self->per_second; /* in thousandths of an event per millisecond */
  int64_t passed_ms = now_ms - self->filled_ms;
  int64_t missing = self->burst - self->left;
  self->left = passed_ms > missing / rate ? self->burst : self->left + passed_ms * rate;
  self->filled_ms = now_ms;
}

int64_t rate_limit_wait_ms(const struct rate_limit *self) {
  if (rate_limit_allows(self))
    return 0;
  int64_t rate = (int64_t)self->per_second;
  int64_t wait_ms = (1000 - self->left + rate - 1) / rate;
  return wait_ms > RATE_LIMIT_TICK_MS ? wait_ms : RATE_LIMIT_TICK_MS;
}
