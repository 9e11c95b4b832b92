#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * A token bucket that limits the rate of events (--events-pace), for readers that need every event
 * of a trimmed stream. It allows a burst that the stream can hold, and then `per_second`. The
 * frontend calls it. It is pure: the caller passes the time of any clock that does not go back.
 *
 *   rate_limit_take       takes a token for each event
 *   rate_limit_allows     false: wait for rate_limit_wait_ms, then call rate_limit_refill
 *   rate_limit_refill     adds the tokens of the time that has passed
 */
struct rate_limit {
  uint64_t per_second; /* 0: there is no limit */
  int64_t burst;       /* the capacity of the bucket, in thousandths of an event */
  int64_t left;        /* the tokens, in thousandths of an event; may be negative */
  int64_t filled_ms;   /* the time of the last refill */
};

/* The shortest wait. The events of this time are read together. */
#define RATE_LIMIT_TICK_MS 20

/* Larger bursts count as this. 1000 times this number is far from an overflow. */
#define RATE_LIMIT_BURST_MAX (UINT64_C(1) << 40)
#define RATE_LIMIT_MAX UINT64_C(1000000000)

/* `per_second` is at most RATE_LIMIT_MAX. If it or `burst` is 0, there is no limit. */
void rate_limit_init(struct rate_limit *self, uint64_t per_second, uint64_t burst, int64_t now_ms);

static inline bool rate_limit_allows(const struct rate_limit *self) {
  return self->per_second == 0 || self->left >= 1000;
}

static inline void rate_limit_take(struct rate_limit *self) {
  self->left -= 1000;
}

void rate_limit_refill(struct rate_limit *self, int64_t now_ms);

/* Returns the milliseconds until events are allowed again, or 0 if they are allowed now. */
int64_t rate_limit_wait_ms(const struct rate_limit *self);
