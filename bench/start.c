/*
 * From the exec until the agent waits for a step, which is when its blocking pop is at the server,
 * and until the first result is here. The ceiling of the first is a program that only connects,
 * sends PING and then the same pop.
 *
 * Nothing polls the server, which would slow down what is measured: a step is in the list already,
 * and when the pop comes, the server passes it on to a client that waits for what the pop moves.
 *
 * Over TLS the bare program has the agent's own transport. It connects once, the agent twice.
 */
#include <sys/mman.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/rig.h"
#include "tests/test.h"

#define ROUNDS 7
#define STARTS 100

enum { WAITS, FIRST_RESULT, ROWS };

struct start_bench {
  struct rig rig;
  double *exec_ms; /* shared with the children: when the last one was about to exec */
  char ping[PATH_MAX], command[PATH_MAX];
  unsigned long jobs;
};

static void note_exec(const void *context) {
  const struct start_bench *self = context;
  *self->exec_ms = latency_now_ms();
}

/* Starts a program at a job of its own, and waits for something in this list of it. */
static double start_ms(struct start_bench *self, struct agent_setup *setup, const char *job,
                       const char *list) {
  redisContext *redis = self->rig.redis;
  char step[RIG_STEP_SIZE];
  rig_step(step, self->jobs, self->command, "");
  (void)rig_number(redis, "LPUSH sandbox:%s:in %s", job, step);
  redisAppendCommand(redis, "BRPOP sandbox:%s:%s 0", job, list);
  rig_send(redis);
  setup->prepare = note_exec;
  setup->prepare_context = self;
  struct agent_process *process = agent_process_start(setup);
  freeReplyObject(rig_reply(redis));
  double ms = latency_now_ms() - *self->exec_ms;
  agent_process_free(process);
  return ms;
}

static double ours_ms(struct start_bench *self, const char *list) {
  char job[32];
  const char *arguments[RIG_ARGUMENTS_MAX + 1];
  (void)snprintf(job, sizeof job, "start-%lu", ++self->jobs);
  rig_arguments(&self->rig, job, NULL, arguments);
  return start_ms(self, &(struct agent_setup){.arguments = arguments}, job, list);
}

static double ceiling_ms(struct start_bench *self) {
  char job[32];
  char port[16];
  (void)snprintf(job, sizeof job, "start-%lu", ++self->jobs);
  (void)snprintf(port, sizeof port, "%d", self->rig.endpoint.port);
  const char *authority = self->rig.endpoint.tls != NULL ? self->rig.endpoint.authority : NULL;
  const char *const arguments[] = {port, job, authority, NULL};
  return start_ms(self, &(struct agent_setup){.arguments = arguments, .program = self->ping}, job,
                  "inflight");
}

static struct start_bench *begin(void (*init)(struct rig *)) {
  struct start_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->exec_ms =
      mmap(NULL, sizeof *self->exec_ms, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(self->exec_ms != MAP_FAILED);
  init(&self->rig);
  rig_program(self->ping, "ping");
  rig_program(self->command, "true");
  (void)ours_ms(self, "results");
  (void)ceiling_ms(self);
  return self;
}

static void *begin_plain(void) {
  return begin(rig_init);
}

static void *begin_tls(void) {
  return begin(rig_init_tls);
}

static void round_of_all(void *context, size_t round, struct samples *samples) {
  (void)round;
  struct start_bench *self = context;
  double waits[STARTS], ceiling[STARTS], first[STARTS];
  for (int i = 0; i < STARTS; i++) {
    waits[i] = ours_ms(self, "inflight");
    ceiling[i] = ceiling_ms(self);
    first[i] = ours_ms(self, "results");
  }
  samples_add(samples, WAITS, OURS, latency_quantile(waits, STARTS, 0.5));
  samples_add(samples, WAITS, CEILING, latency_quantile(ceiling, STARTS, 0.5));
  samples_add(samples, FIRST_RESULT, OURS, latency_quantile(first, STARTS, 0.5));
}

static void end(void *context) {
  struct start_bench *self = context;
  rig_release(&self->rig);
  (void)munmap(self->exec_ms, sizeof *self->exec_ms);
  free(self);
}

static const struct row rows[ROWS] = {
    [WAITS] = {"start, until it waits for a step", "ms", "connect, PING, the same pop",
               RATIO_AT_MOST, 1.3, 0},
    [FIRST_RESULT] = {"start, until the first result", "ms", NULL, OURS_AT_MOST, 2.8, 0},
};

static const struct row tls_rows[ROWS] = {
    [WAITS] = {"start over TLS, until it waits", "ms", "connect over TLS, PING, the same pop",
               RATIO_AT_MOST, 2.0, 0},
    [FIRST_RESULT] = {"start over TLS, until the first result", "ms", NULL, OURS_AT_MOST, 6, 0},
};

const struct measurement bench_start = {"start",      rows, ROW_COUNT(rows), ROUNDS, begin_plain,
                                        round_of_all, end};

const struct measurement bench_start_tls = {
    "start-tls", tls_rows, ROW_COUNT(tls_rows), ROUNDS, begin_tls, round_of_all, end};
