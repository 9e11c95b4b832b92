#ifndef BENCH_LATENCY_H
#define BENCH_LATENCY_H

#include <stddef.h>

/*
 * How long something took, many times over; in milliseconds.
 *
 *   struct latencies latencies = {0};
 *   double begin = latency_now_ms();
 *   …
 *   latencies_add(&latencies, latency_now_ms() - begin);
 *   latencies_quantile(&latencies, 0.99);
 *   latencies_release(&latencies);
 */
struct latencies {
  double *ms;
  size_t count;
  size_t capacity;
};

/* A clock that never jumps; the time that the commands of bench/programs/ print is the same. */
double latency_now_ms(void);

void latencies_add(struct latencies *self, double ms);

/* The smallest of them that no more than 1 - `quantile` of them exceed. There must be one. */
double latencies_quantile(struct latencies *self, double quantile);

/* Forgets all, and is ready for more. */
void latencies_release(struct latencies *self);

#endif
