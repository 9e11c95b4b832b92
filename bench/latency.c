#include "bench/latency.h"
#include "tests/test.h"

#include <math.h>
#include <time.h>

double latency_now_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

void latencies_add(struct latencies *self, double ms) {
  if (self->count == self->capacity) {
    self->capacity = self->capacity == 0 ? 256 : 2 * self->capacity;
    self->ms = realloc(self->ms, self->capacity * sizeof *self->ms);
    assert_non_null(self->ms);
  }
  self->ms[self->count++] = ms;
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left;
  double b = *(const double *)right;
  return (a > b) - (a < b);
}

double latencies_quantile(struct latencies *self, double quantile) {
  assert_true(self->count > 0);
  qsort(self->ms, self->count, sizeof *self->ms, compare);
  size_t rank = (size_t)ceil(quantile * (double)self->count);
  return self->ms[rank > 0 ? rank - 1 : 0];
}

void latencies_release(struct latencies *self) {
  free(self->ms);
  *self = (struct latencies){0};
}
