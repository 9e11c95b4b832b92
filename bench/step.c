/*
 * One step at a time, from its LPUSH until its result is here. The ceiling is what the same work
 * costs without an agent: running the command, and three round trips (fetch the step, record that
 * it was started, deliver the result).
 */
#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/rig.h"
#include "tests/test.h"

#define JOB "step"
#define ROUNDS 7

/* Ours and the ceiling take turns one by one: other load on the machine affects both, and each
   finds caches and processors as the other has left them. */
#define STEPS 2000
#define WARM_UP_STEPS 50

#define CEILING_PINGS 3

struct step_bench {
  struct rig rig;
  struct agent_process *agent;
  redisContext *results; /* waits for them, so that only the result wakes it */
  char command[PATH_MAX];
  unsigned long steps;
};

static double ours_ms(struct step_bench *self) {
  char step[RIG_STEP_SIZE];
  rig_step(step, ++self->steps, self->command, "");
  return rig_step_ms(&self->rig, self->results, JOB, step);
}

static double ceiling_ms(struct step_bench *self) {
  double begin = latency_now_ms();
  rig_spawn((const char *[]){self->command, NULL});
  for (int i = 0; i < CEILING_PINGS; i++)
    rig_do(self->rig.redis, "PING");
  return latency_now_ms() - begin;
}

static void *begin(void) {
  struct step_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  rig_init(&self->rig);
  self->results = rig_connect(&self->rig);
  rig_program(self->command, "true");
  self->agent = rig_start_agent(&self->rig, JOB, NULL);
  rig_wait_idle(&self->rig, 1);
  for (int i = 0; i < WARM_UP_STEPS; i++)
    (void)ours_ms(self);
  return self;
}

static void round_of_both(void *context, size_t round, struct samples *samples) {
  (void)round;
  struct step_bench *self = context;
  double ours[STEPS], ceiling[STEPS];
  for (int i = 0; i < STEPS; i++) {
    ours[i] = ours_ms(self);
    ceiling[i] = ceiling_ms(self);
  }
  samples_add(samples, 0, OURS, latency_quantile(ours, STEPS, 0.5));
  samples_add(samples, 0, CEILING, latency_quantile(ceiling, STEPS, 0.5));
  samples_add(samples, 1, OURS, latency_quantile(ours, STEPS, 0.99));
  samples_add(samples, 1, CEILING, latency_quantile(ceiling, STEPS, 0.99));
}

static void end(void *context) {
  struct step_bench *self = context;
  agent_process_free(self->agent);
  redisFree(self->results);
  rig_release(&self->rig);
  free(self);
}

static const struct row rows[] = {
    {"one step, p50", "ms", "bare spawn and 3 PINGs", RATIO_AT_MOST, 1.15, 0},
    {"one step, p99", "ms", "bare spawn and 3 PINGs", RATIO_AT_MOST, 1.5, 0},
};

const struct measurement bench_step = {"step",        rows, ROW_COUNT(rows), ROUNDS, begin,
                                       round_of_both, end};
