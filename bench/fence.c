/*
 * What a sandbox policy adds to a step: the same step with and without it, in turns, from its LPUSH
 * until its result is here. The difference of the medians is the figure.
 */
#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/rig.h"
#include "tests/test.h"

#define JOB "fence"
#define ROUNDS 5
#define STEPS 500
#define WARM_UP_STEPS 50
#define LIMIT_US 80

enum { GUARD, WRITE_PATHS, NETWORK_NONE, NETWORK_LOOPBACK, POLICIES };

static const char *const policies[POLICIES] = {
    [GUARD] = "{}",
    [WRITE_PATHS] = "{\"writePaths\":[\"/var/tmp\",\"/tmp\"]}",
    [NETWORK_NONE] = "{\"writePaths\":[\"/var/tmp\",\"/tmp\"],\"network\":\"none\"}",
    [NETWORK_LOOPBACK] = "{\"writePaths\":[\"/var/tmp\",\"/tmp\"],\"network\":\"loopback\"}",
};

struct fence_bench {
  struct rig rig;
  struct agent_process *agent;
  redisContext *results; /* waits for them, so that only the result wakes it */
  char command[PATH_MAX];
  unsigned long steps;
};

/* `policy` may be NULL. */
static double step_us(struct fence_bench *self, const char *policy) {
  char step[RIG_STEP_SIZE + 256];
  rig_step(step, ++self->steps, self->command, "");
  if (policy != NULL)
    (void)snprintf(strrchr(step, '}'), 256, ",\"fence\":%s}", policy);
  return 1000 * rig_step_ms(&self->rig, self->results, JOB, step);
}

static void *begin(void) {
  struct fence_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  rig_init(&self->rig);
  self->results = rig_connect(&self->rig);
  rig_program(self->command, "true");
  self->agent = rig_start_agent(&self->rig, JOB, NULL);
  rig_wait_idle(&self->rig, 1);
  for (int i = 0; i < WARM_UP_STEPS; i++)
    (void)step_us(self, NULL);
  return self;
}

static void round_of_all(void *context, size_t round, struct samples *samples) {
  (void)round;
  struct fence_bench *self = context;
  static double with[POLICIES][STEPS], without[STEPS];
  for (size_t i = 0; i < STEPS; i++) {
    without[i] = step_us(self, NULL);
    for (size_t n = 0; n < POLICIES; n++)
      with[n][i] = step_us(self, policies[n]);
  }
  double base_us = latency_quantile(without, STEPS, 0.5);
  for (size_t n = 0; n < POLICIES; n++)
    samples_add(samples, n, OURS, latency_quantile(with[n], STEPS, 0.5) - base_us);
  samples_beside(samples, GUARD, "the step without a policy, us", base_us);
}

static void end(void *context) {
  struct fence_bench *self = context;
  agent_process_free(self->agent);
  redisFree(self->results);
  rig_release(&self->rig);
  free(self);
}

static const struct row rows[] = {
    [GUARD] = {"fence {}, added to a step, p50", "us", NULL, OURS_AT_MOST, LIMIT_US, 0},
    [WRITE_PATHS] = {"two writePaths, added, p50", "us", NULL, OURS_AT_MOST, LIMIT_US, 0},
    [NETWORK_NONE] = {"and network none, added, p50", "us", NULL, OURS_AT_MOST, LIMIT_US, 0},
    [NETWORK_LOOPBACK] = {"or network loopback, added, p50", "us", NULL, OURS_AT_MOST, LIMIT_US, 0},
};

const struct measurement bench_fence = {"fence",      rows, ROW_COUNT(rows), ROUNDS, begin,
                                        round_of_all, end};
