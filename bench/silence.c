/*
 * A line that follows silence, from its write until XREAD BLOCK has brought it to a client. The
 * commands print the time at which they write; it is the clock that this program has, too.
 *
 * Silence takes its time. So a few agents have lines, by turns, and there is nothing else to do for
 * most of the time between two of them.
 */
#include <unistd.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/pulses.h"
#include "tests/test.h"

#define ROUNDS 5
#define AGENTS 8
#define LINES 13 /* of each agent in a round */

/* The contract's silence is 100 ms; a line of its own comes only then. */
#define PERIOD_MS 112
#define PHASE_MS (PERIOD_MS / AGENTS)

static double p99_of(struct latencies *latencies) {
  double p99 = latencies_quantile(latencies, 0.99);
  latencies_release(latencies);
  return p99;
}

static double ours_ms(struct pulses *self) {
  struct latencies latencies = {0};
  pulses_push(self, LINES, PERIOD_MS * 1000);
  pulses_read(self, LINES, &latencies);
  pulses_wait(self);
  return p99_of(&latencies);
}

/* With as much silence between them. */
static double ceiling_ms(struct pulses *self) {
  struct latencies latencies = {0};
  for (int i = 0; i < AGENTS * LINES; i++) {
    (void)usleep(PHASE_MS * 1000);
    double begin = latency_now_ms();
    rig_do(self->rig.redis,
           "XADD silence MAXLEN ~ 10000 * data "
           "{\"schemaVersion\":1,\"stepId\":\"00000000-0000-0000-0000-000000000001\","
           "\"kind\":\"stdout\",\"line\":\"1234567890123456\","
           "\"timestamp\":\"2026-05-05T10:00:00.123+00:00\"}");
    latencies_add(&latencies, latency_now_ms() - begin);
  }
  return p99_of(&latencies);
}

static void *begin(void) {
  struct pulses *self = calloc(1, sizeof *self);
  assert_non_null(self);
  pulses_init(self, AGENTS);
  return self;
}

static void round_of_both(void *context, size_t round, struct samples *samples) {
  (void)round;
  struct pulses *self = context;
  samples_add(samples, 0, OURS, ours_ms(self));
  samples_add(samples, 0, CEILING, ceiling_ms(self));
}

static void end(void *context) {
  struct pulses *self = context;
  pulses_release(self);
  free(self);
}

static const struct row rows[] = {
    {"a line after silence, p99", "ms", "one XADD", OURS_AT_MOST, 2, 0},
};

const struct measurement bench_silence = {.name = "silence",
                                          .rows = rows,
                                          .row_count = sizeof rows / sizeof *rows,
                                          .rounds = ROUNDS,
                                          .begin = begin,
                                          .round = round_of_both,
                                          .end = end};
