/*
 * Steps that all wait already when the agent takes the first one. The ceiling is a loop that runs
 * the same command as often.
 */
#include <math.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/rig.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define JOB "queue"
#define ROUNDS 9
#define STEPS 2000

/* Between two questions how many steps are answered. */
#define FIRST_PAUSE_MS 5.0
#define SHORTEST_PAUSE_MS 0.2
#define LONGEST_PAUSE_MS 100.0

struct queue_bench {
  struct rig rig;
  struct agent_process *agent;
  char command[PATH_MAX];
  unsigned long steps;
  const char *push[STEPS + 2]; /* a command of many words */
  char texts[STEPS][RIG_STEP_SIZE];
};

static void prepare(struct queue_bench *self) {
  for (size_t i = 0; i < STEPS; i++)
    rig_step(self->texts[i], ++self->steps, self->command, "");
}

/* Asks again after half of the time that the rest is expected to take. That is no load for the
   server, and the end is known to a fraction of a millisecond. */
static double wait_for_results(struct queue_bench *self, double begin_ms) {
  for (;;) {
    long long answered = rig_number(self->rig.redis, "LLEN sandbox:" JOB ":results");
    double ms = latency_now_ms() - begin_ms;
    if (answered >= STEPS)
      return ms;
    if (ms > WAIT_BOUND_MS)
      agent_process_fail(self->agent, "%lld of %d queued steps are answered", answered, STEPS);
    double half_ms =
        answered == 0 ? FIRST_PAUSE_MS : ms / (double)answered * (double)(STEPS - answered) / 2;
    half_ms = fmin(fmax(half_ms, SHORTEST_PAUSE_MS), LONGEST_PAUSE_MS);
    (void)usleep((useconds_t)(half_ms * 1e3));
  }
}

static void check_result(const struct queue_bench *self, const char *result, unsigned long number) {
  char id[64];
  (void)snprintf(id, sizeof id, "\"stepId\":\"" RIG_STEP_ID "\"", number);
  if (strstr(result, id) == NULL || strstr(result, "\"exitCode\":0,") == NULL)
    agent_process_fail(self->agent, "not step %lu, or it failed: %.400s", number, result);
}

/* The newest result is the first. */
static void check_results(const struct queue_bench *self) {
  redisAppendCommand(self->rig.redis, "LRANGE sandbox:" JOB ":results 0 -1");
  redisReply *reply = rig_reply(self->rig.redis);
  if (reply->elements != STEPS)
    agent_process_fail(self->agent, "%zu results of %d steps", reply->elements, STEPS);
  for (size_t i = 0; i < STEPS; i++)
    check_result(self, reply->element[i]->str, self->steps - i);
  freeReplyObject(reply);
}

static double ours_per_second(struct queue_bench *self) {
  prepare(self);
  double begin = latency_now_ms();
  redisAppendCommandArgv(self->rig.redis, STEPS + 2, self->push, NULL);
  freeReplyObject(rig_reply(self->rig.redis));
  double ms = wait_for_results(self, begin);
  check_results(self);
  rig_do(self->rig.redis, "DEL sandbox:" JOB ":results");
  return STEPS / ms * 1e3;
}

static double ceiling_per_second(struct queue_bench *self) {
  double begin = latency_now_ms();
  for (int i = 0; i < STEPS; i++)
    rig_spawn((const char *[]){self->command, NULL});
  return STEPS / (latency_now_ms() - begin) * 1e3;
}

static void *begin(void) {
  struct queue_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  rig_init(&self->rig);
  rig_program(self->command, "true");
  self->push[0] = "LPUSH";
  self->push[1] = "sandbox:" JOB ":in";
  for (size_t i = 0; i < STEPS; i++)
    self->push[i + 2] = self->texts[i];
  self->agent = rig_start_agent(&self->rig, JOB, NULL);
  rig_wait_idle(&self->rig, 1);
  return self;
}

static void round_of_both(void *context, size_t round, struct samples *samples) {
  (void)round;
  struct queue_bench *self = context;
  samples_add(samples, 0, OURS, ours_per_second(self));
  samples_add(samples, 0, CEILING, ceiling_per_second(self));
}

static void end(void *context) {
  struct queue_bench *self = context;
  agent_process_free(self->agent);
  rig_release(&self->rig);
  free(self);
}

static const struct row rows[] = {
    {"2,000 queued steps", "steps/s", "bare spawn loop", RATIO_AT_LEAST, 0.90, 0},
};

const struct measurement bench_queue = {"queue",       rows, ROW_COUNT(rows), ROUNDS, begin,
                                        round_of_both, end};
