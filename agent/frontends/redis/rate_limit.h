#ifndef AGENT_FRONTENDS_REDIS_RATE_LIMIT_H
#define AGENT_FRONTENDS_REDIS_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Limits the rate of events, for readers that need every event of a stream that is trimmed: a burst
 * that the stream holds, then `per_second`. It is pure: the caller passes the time, of any clock
 * that does not go back.
 *
 *   rate_limit_take       for each event
 *   rate_limit_allows     false: no event before rate_limit_wait_ms and a rate_limit_refill
 *   rate_limit_refill     from time to time
 */
struct rate_limit {
  uint64_t per_second; /* 0: there is no limit */
  int64_t burst;       /* in thousandths of an event, as */
  int64_t left;        /* what may come now; less than 0 when more came than might */
  int64_t filled_ms;   /* when `left` was reckoned */
};

/* While it waits, so many milliseconds' events gather: the pipes are not read for each. */
#define RATE_LIMIT_TICK_MS 20

/* What is beyond counts as this: times 1000 it is far from an overflow. */
#define RATE_LIMIT_BURST_MAX (UINT64_C(1) << 40)
#define RATE_LIMIT_MAX UINT64_C(1000000000)

/* `per_second`: at most RATE_LIMIT_MAX; when it or `burst` is 0, everything is allowed. */
void rate_limit_init(struct rate_limit *self, uint64_t per_second, uint64_t burst, int64_t now_ms);

static inline bool rate_limit_allows(const struct rate_limit *self) {
  return self->per_second == 0 || self->left >= 1000;
}

static inline void rate_limit_take(struct rate_limit *self) {
  self->left -= 1000;
}

void rate_limit_refill(struct rate_limit *self, int64_t now_ms);

/* Milliseconds until events are allowed again: 0 when they are. */
int64_t rate_limit_wait_ms(const struct rate_limit *self);

#endif
