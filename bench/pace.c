/*
 * Lines that come one by one: how old they are when XREAD BLOCK delivers them to a client, how many
 * writes they need, and what they cost the server when many agents have some. A write is a
 * transaction, which the server counts.
 */
#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/pulses.h"
#include "tests/test.h"

#define ROUNDS 3

#define SLOW_LINES 100
#define SLOW_PERIOD_US 30000

#define FAST_LINES 4000
#define FAST_PERIOD_US 500

#define CROWD 100
#define CROWD_LINES 200
#define CROWD_PERIOD_US 10000

enum { MEDIAN, P95, WRITES, SERVER };

struct pace_bench {
  struct pulses one;
  struct pulses crowd;
  redisContext *bare[CROWD]; /* at the crowd's server */
};

static void *begin(void) {
  struct pace_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  pulses_init(&self->one, 1);
  pulses_init(&self->crowd, CROWD);
  for (size_t i = 0; i < CROWD; i++)
    self->bare[i] = rig_connect(&self->crowd.rig);
  return self;
}

static void measure_slow(struct pulses *self, struct samples *samples) {
  double ages[SLOW_LINES];
  pulses_push(self, SLOW_LINES, SLOW_PERIOD_US);
  pulses_read(self, SLOW_LINES, ages);
  pulses_wait(self);
  samples_add(samples, MEDIAN, OURS, latency_quantile(ages, SLOW_LINES, 0.5));
  samples_add(samples, P95, OURS, latency_quantile(ages, SLOW_LINES, 0.95));
}

static long transactions(const struct rig *rig) {
  static const char label[] = "cmdstat_exec:calls=";
  redisAppendCommand(rig->redis, "INFO commandstats");
  redisReply *reply = rig_reply(rig->redis);
  const char *found = strstr(reply->str, label);
  long calls = found == NULL ? 0 : strtol(found + sizeof label - 1, NULL, 10);
  freeReplyObject(reply);
  return calls;
}

static void measure_fast(struct pulses *self, struct samples *samples) {
  double ages[FAST_LINES];
  long before = transactions(&self->rig);
  double begin_ms = latency_now_ms();
  pulses_push(self, FAST_LINES, FAST_PERIOD_US);
  pulses_read(self, FAST_LINES, ages);
  double seconds = (latency_now_ms() - begin_ms) / 1e3;
  pulses_wait(self);
  samples_add(samples, WRITES, OURS, (double)(transactions(&self->rig) - before) / seconds);
  samples_beside(samples, WRITES, "age of these lines, median, ms",
                 latency_quantile(ages, FAST_LINES, 0.5));
  samples_beside(samples, WRITES, "age of these lines, p95, ms",
                 latency_quantile(ages, FAST_LINES, 0.95));
}

static double server_us(const struct pace_bench *self) {
  return 1e3 * processor_ms((pid_t)rig_info(&self->crowd.rig, "process_id"));
}

/* Each line has a command and a write of its own, by as many connections. */
static void send_bare(const struct pace_bench *self) {
  for (int i = 0; i < CROWD * CROWD_LINES; i++)
    rig_do(self->bare[i % CROWD],
           "XADD bare-%d MAXLEN ~ 10000 * data "
           "{\"schemaVersion\":1,\"stepId\":\"00000000-0000-0000-0000-000000000001\","
           "\"kind\":\"stdout\",\"line\":\"1234567890123456\",\"seq\":1234,"
           "\"timestamp\":\"2026-05-05T10:00:00.123+00:00\"}",
           i % CROWD);
}

static void measure_crowd(struct pace_bench *self, struct samples *samples) {
  const double lines = (double)CROWD * CROWD_LINES;
  double begin_us = server_us(self);
  pulses_push(&self->crowd, CROWD_LINES, CROWD_PERIOD_US);
  pulses_wait(&self->crowd);
  samples_add(samples, SERVER, OURS, (server_us(self) - begin_us) / lines);
  begin_us = server_us(self);
  send_bare(self);
  samples_add(samples, SERVER, CEILING, (server_us(self) - begin_us) / lines);
}

static void round_of_all(void *context, size_t round, struct samples *samples) {
  (void)round;
  struct pace_bench *self = context;
  measure_slow(&self->one, samples);
  measure_fast(&self->one, samples);
  measure_crowd(self, samples);
}

static void end(void *context) {
  struct pace_bench *self = context;
  for (size_t i = 0; i < CROWD; i++)
    redisFree(self->bare[i]);
  pulses_release(&self->crowd);
  pulses_release(&self->one);
  free(self);
}

static const struct row rows[] = {
    [MEDIAN] = {"lines 30 ms apart, age, median", "ms", NULL, OURS_AT_MOST, 3, 0},
    [P95] = {"lines 30 ms apart, age, p95", "ms", NULL, OURS_AT_MOST, 12, 0},
    [WRITES] = {"2,000 single lines a second, writes", "writes/s", NULL, OURS_AT_MOST, 150,
                BASELINE_UNJUDGED},
    [SERVER] = {"100 agents, 100 lines/s each, server", "us/line", "one XADD a write per line",
                RATIO_AT_MOST, 1, 1.3},
};

const struct measurement bench_pace = {"pace",       rows, ROW_COUNT(rows), ROUNDS, begin,
                                       round_of_all, end};
