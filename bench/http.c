/*
 * `agent --http`: one step at a time, from its PUT until the end of its stream, beside the same
 * step with Redis, from its LPUSH until its result is here; 200,000 lines to one reader, beside the
 * same step with Redis; an idle agent; and the time from exec until the agent answers.
 */
#include <unistd.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/piped.h"
#include "bench/rig.h"
#include "tests/support/http_client.h"
#include "tests/support/proc.h"
#include "tests/test.h"

#define JOB "http"
#define ROUNDS 7
#define STEPS 500
#define ONCE_STEPS 50
#define WARM_UP_STEPS 20
#define LINES 200000
#define LINES_TEXT "200000"
#define STARTS 20

#define IDLE_LIMIT_KIB 1024

enum { STEP, OUTPUT, IDLE, START };

struct http_bench {
  struct rig rig;
  struct agent_process *redis_agent, *agent;
  redisContext *results;
  struct http_client *client;
  char address[128];
  char command[PATH_MAX], lines[PATH_MAX];
  unsigned long steps;
};

static struct agent_process *start_agent(struct http_bench *self) {
  const char *const arguments[] = {"--http", self->address, NULL};
  return agent_process_start(&(struct agent_setup){.arguments = arguments});
}

/* Tries without a pause: a start takes a millisecond. */
static struct http_client *connect_soon(const struct http_bench *self) {
  struct http_client *client;
  while ((client = http_client_try(self->address)) == NULL)
    continue;
  assert_int_equal(http_client_request(client, "GET", "/health", NULL, NULL)->status, 200);
  return client;
}

/* Submits a step and reads its stream to the end. Returns the milliseconds. */
static double http_ms(struct http_bench *self, const char *program, const char *arguments) {
  char step[RIG_STEP_SIZE], target[128];
  rig_step(step, ++self->steps, program, arguments);
  (void)snprintf(target, sizeof target, "/steps/" RIG_STEP_ID, self->steps);
  double begin_ms = latency_now_ms();
  http_client_send_request(self->client, "PUT", target, "Accept: application/x-ndjson\r\n", step);
  assert_int_equal(http_client_begin_response(self->client)->status, 200);
  while (http_client_read_body(self->client))
    continue;
  assert_true(http_client_is_whole(self->client));
  return latency_now_ms() - begin_ms;
}

static double redis_ms(struct http_bench *self, const char *program, const char *arguments) {
  char step[RIG_STEP_SIZE];
  rig_step(step, ++self->steps, program, arguments);
  return rig_step_ms(&self->rig, self->results, JOB, step);
}

static void *begin(void) {
  struct http_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  rig_init(&self->rig);
  self->results = rig_connect(&self->rig);
  rig_program(self->command, "true");
  rig_program(self->lines, "lines");
  (void)snprintf(self->address, sizeof self->address, "unix:%.90s/%d.sock", getenv("TMPDIR"),
                 (int)getpid());
  self->redis_agent = rig_start_agent(&self->rig, JOB, NULL);
  rig_wait_idle(&self->rig, 1);
  self->agent = start_agent(self);
  self->client = connect_soon(self);
  for (int i = 0; i < WARM_UP_STEPS; i++)
    (void)http_ms(self, self->command, "");
  return self;
}

static void measure_steps(struct http_bench *self, struct samples *samples) {
  double ours[STEPS], ceiling[STEPS], once[ONCE_STEPS];
  for (int i = 0; i < STEPS; i++) {
    ours[i] = http_ms(self, self->command, "");
    ceiling[i] = redis_ms(self, self->command, "");
  }
  samples_add(samples, STEP, OURS, latency_quantile(ours, STEPS, 0.5));
  for (int i = 0; i < ONCE_STEPS; i++)
    once[i] = piped_once_ms(self->command);
  samples_add(samples, STEP, CEILING, latency_quantile(ceiling, STEPS, 0.5));
  samples_beside(samples, STEP, "the same step by agent --once, ms",
                 latency_quantile(once, ONCE_STEPS, 0.5));
}

static void measure_output(struct http_bench *self, struct samples *samples) {
  const double amount = LINES * 1e3;
  samples_add(samples, OUTPUT, OURS, amount / http_ms(self, self->lines, "\"" LINES_TEXT "\""));
  samples_add(samples, OUTPUT, CEILING, amount / redis_ms(self, self->lines, "\"" LINES_TEXT "\""));
}

/* An agent of its own, because the first one has served steps. */
static void measure_starts(struct http_bench *self, struct samples *samples) {
  struct http_bench other = {.steps = 0};
  double starts[STARTS];
  (void)snprintf(other.address, sizeof other.address, "%.*s.2", (int)strlen(self->address),
                 self->address);
  for (int i = 0; i < STARTS; i++) {
    const double begin_ms = latency_now_ms();
    struct agent_process *agent = start_agent(&other);
    struct http_client *client = connect_soon(&other);
    starts[i] = latency_now_ms() - begin_ms;
    http_client_free(client);
    if (i == 0)
      samples_add(samples, IDLE, OURS, (double)proc_status_kib(agent_process_pid(agent), "VmRSS"));
    agent_process_free(agent);
    (void)unlink(other.address + strlen("unix:"));
  }
  samples_add(samples, START, OURS, latency_quantile(starts, STARTS, 0.5));
}

static void round_of_all(void *context, size_t round, struct samples *samples) {
  (void)round;
  measure_steps(context, samples);
  measure_output(context, samples);
  measure_starts(context, samples);
}

static void end(void *context) {
  struct http_bench *self = context;
  http_client_free(self->client);
  agent_process_free(self->agent);
  agent_process_free(self->redis_agent);
  redisFree(self->results);
  rig_release(&self->rig);
  free(self);
}

static const struct row rows[] = {
    [STEP] = {"one step over HTTP, p50", "ms", "the same step with Redis", RATIO_AT_MOST, 1.2, 0},
    [OUTPUT] = {"output over HTTP, 200,000 lines", "lines/s", "the same step with Redis",
                RATIO_AT_LEAST, 0.9, 0},
    [IDLE] = {"memory over HTTP, idle", "KiB", NULL, OURS_AT_MOST, IDLE_LIMIT_KIB, 0},
    [START] = {"start over HTTP, until it answers", "ms", NULL, OURS_AT_MOST, 5, 0},
};

const struct measurement bench_http = {"http",       rows, ROW_COUNT(rows), ROUNDS, begin,
                                       round_of_all, end};
