#ifndef AGENT_DOORS_REDIS_PACE_H
#define AGENT_DOORS_REDIS_PACE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How fast events may come, for readers that must have all of them from a stream that is trimmed: a
 * burst that the stream holds, then `per_second`. Does no I/O; it is told the time (any clock that
 * does not go back).
 *
 *   pace_take            for each event
 *   pace_allows          false: no event until pace_wait_ms has passed and pace_refill was called
 *   pace_refill          from time to time
 */
struct pace {
  uint64_t per_second; /* 0: there is no pace */
  int64_t burst;       /* in thousandths of an event, as */
  int64_t left;        /* what may come now; less than 0 when more came than might */
  int64_t filled_ms;   /* when `left` was reckoned */
};

/* While it waits, so many milliseconds' events gather: the pipes are not read for each. */
#define PACE_TICK_MS 20

/* What is beyond counts as this: times 1000 it is far from an overflow. */
#define PACE_BURST_MAX (UINT64_C(1) << 40)
#define PACE_MAX UINT64_C(1000000000)

/* `per_second`: at most PACE_MAX; when it or `burst` is 0, everything is allowed. */
void pace_init(struct pace *self, uint64_t per_second, uint64_t burst, int64_t now_ms);

static inline bool pace_allows(const struct pace *self) {
  return self->per_second == 0 || self->left >= 1000;
}

static inline void pace_take(struct pace *self) {
  self->left -= 1000;
}

void pace_refill(struct pace *self, int64_t now_ms);

/* Milliseconds until events are allowed again: 0 when they are. */
int64_t pace_wait_ms(const struct pace *self);

#endif
