/*
 * A small readFile, from its LPUSH until its result is here: beside a program that does what must
 * be done for it and no more, and beside a step that runs a command that does nothing. All three
 * take turns one by one.
 */

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/rig.h"
#include "tests/test.h"

#define JOB "read"
#define BARE_JOB "bare"
#define ROUNDS 5
#define STEPS 500
#define WARM_UP_STEPS 50

enum { TO_BARE, TO_STEP };

struct read_bench {
  struct rig rig;
  struct agent_process *agent;
  struct agent_process *bare;
  redisContext *results;
  char command[PATH_MAX], program[PATH_MAX], file[PATH_MAX];
  unsigned long steps;
};

static double read_ms(struct read_bench *self, const char *job) {
  char step[RIG_STEP_SIZE];
  (void)snprintf(step, sizeof step,
                 "{\"schemaVersion\":1,\"stepId\":\"" RIG_STEP_ID "\",\"kind\":\"readFile\","
                 "\"path\":\"%s\"}",
                 ++self->steps, self->file);
  return rig_step_ms(&self->rig, self->results, job, step);
}

static double run_ms(struct read_bench *self) {
  char step[RIG_STEP_SIZE];
  rig_step(step, ++self->steps, self->command, "");
  return rig_step_ms(&self->rig, self->results, JOB, step);
}

/* As long as a file that somebody edits. */
static void write_file(struct read_bench *self) {
  (void)snprintf(self->file, sizeof self->file, "%s/file",
                 redis_server_directory(self->rig.server));
  FILE *file = fopen(self->file, "we");
  assert_non_null(file);
  for (int i = 0; i < 40; i++)
    (void)fprintf(file, "this is line %d of a small file         ", i);
  assert_int_equal(fclose(file), 0);
}

static void *begin(void) {
  struct read_bench *self = calloc(1, sizeof *self);
  char port[16];
  assert_non_null(self);
  rig_init(&self->rig);
  self->results = rig_connect(&self->rig);
  rig_program(self->command, "true");
  rig_program(self->program, "answer");
  write_file(self);
  (void)snprintf(port, sizeof port, "%d", redis_server_port(self->rig.server));
  self->agent = rig_start_agent(&self->rig, JOB, NULL);
  self->bare = agent_process_start(&(struct agent_setup){
      .program = self->program, .arguments = (const char *[]){port, BARE_JOB, self->file, NULL}});
  rig_wait_idle(&self->rig, 2);
  for (int i = 0; i < WARM_UP_STEPS; i++) {
    (void)read_ms(self, JOB);
    (void)read_ms(self, BARE_JOB);
    (void)run_ms(self);
  }
  return self;
}

static void round_of_all(void *context, size_t round, struct samples *samples) {
  (void)round;
  struct read_bench *self = context;
  struct latencies ours = {0}, bare = {0}, step = {0};
  for (int i = 0; i < STEPS; i++) {
    latencies_add(&ours, read_ms(self, JOB));
    latencies_add(&bare, read_ms(self, BARE_JOB));
    latencies_add(&step, run_ms(self));
  }
  double p50 = latencies_quantile(&ours, 0.5);
  samples_add(samples, TO_BARE, OURS, p50);
  samples_add(samples, TO_BARE, CEILING, latencies_quantile(&bare, 0.5));
  samples_add(samples, TO_STEP, OURS, p50);
  samples_add(samples, TO_STEP, CEILING, latencies_quantile(&step, 0.5));
  samples_beside(samples, TO_BARE, "p99, ms", latencies_quantile(&ours, 0.99));
  latencies_release(&ours);
  latencies_release(&bare);
  latencies_release(&step);
}

static void end(void *context) {
  struct read_bench *self = context;
  agent_process_free(self->bare);
  agent_process_free(self->agent);
  redisFree(self->results);
  rig_release(&self->rig);
  free(self);
}

static const struct row rows[] = {
    [TO_BARE] = {"one small readFile, p50", "ms", "bare pop, fork, read, one transaction",
                 RATIO_AT_MOST, 1.5, 0},
    [TO_STEP] = {"the same beside a step", "ms", "a step of a command that does nothing",
                 RATIO_AT_MOST, 0.6, 0},
};

const struct measurement bench_read = {.name = "read",
                                       .rows = rows,
                                       .row_count = sizeof rows / sizeof *rows,
                                       .rounds = ROUNDS,
                                       .begin = begin,
                                       .round = round_of_all,
                                       .end = end};
