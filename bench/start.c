/*
 * From the exec until the pop that would block is at the server, against a program that does
 * nothing before it but to connect and PING.
 *
 * Nothing looks at the server again and again, which would take from what is measured: a step lies
 * in the list already, and when the pop comes, the server hands it on to the client that waits for
 * what the pop moves.
 *
 * By TLS that program has the agent's own transport. It connects once, and the agent twice.
 */
#include <sys/mman.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/rig.h"
#include "tests/test.h"

#define ROUNDS 7
#define STARTS 100

struct start_bench {
  struct rig rig;
  double *exec_ms; /* shared with the children: when the last one was about to exec */
  char ping[PATH_MAX];
  unsigned long jobs;
};

static void note_exec(const void *context) {
  const struct start_bench *self = context;
  *self->exec_ms = latency_now_ms();
}

/* Starts a program at a job of its own. */
static double start_ms(struct start_bench *self, struct agent_setup *setup, const char *job) {
  redisContext *redis = self->rig.redis;
  char step[RIG_STEP_SIZE];
  rig_step(step, self->jobs, self->ping, "");
  (void)rig_number(redis, "LPUSH sandbox:%s:in %s", job, step);
  redisAppendCommand(redis, "BRPOP sandbox:%s:inflight 0", job);
  rig_send(redis);
  setup->prepare = note_exec;
  setup->prepare_context = self;
  struct agent_process *process = agent_process_start(setup);
  freeReplyObject(rig_reply(redis));
  double ms = latency_now_ms() - *self->exec_ms;
  agent_process_free(process);
  return ms;
}

static double ours_ms(struct start_bench *self) {
  char job[32];
  const char *arguments[RIG_ARGUMENTS_MAX + 1];
  (void)snprintf(job, sizeof job, "start-%lu", ++self->jobs);
  rig_arguments(&self->rig, job, NULL, arguments);
  return start_ms(self, &(struct agent_setup){.arguments = arguments}, job);
}

static double ceiling_ms(struct start_bench *self) {
  char job[32];
  char port[16];
  (void)snprintf(job, sizeof job, "start-%lu", ++self->jobs);
  (void)snprintf(port, sizeof port, "%d", self->rig.endpoint.port);
  const char *authority = self->rig.endpoint.tls != NULL ? self->rig.endpoint.authority : NULL;
  const char *const arguments[] = {port, job, authority, NULL};
  return start_ms(self, &(struct agent_setup){.arguments = arguments, .program = self->ping}, job);
}

static struct start_bench *begin(void (*init)(struct rig *)) {
  struct start_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->exec_ms =
      mmap(NULL, sizeof *self->exec_ms, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(self->exec_ms != MAP_FAILED);
  init(&self->rig);
  rig_program(self->ping, "ping");
  (void)ours_ms(self);
  (void)ceiling_ms(self);
  return self;
}

static void *begin_plain(void) {
  return begin(rig_init);
}

static void *begin_tls(void) {
  return begin(rig_init_tls);
}

static void round_of_both(void *context, size_t round, struct samples *samples) {
  (void)round;
  struct start_bench *self = context;
  struct latencies ours = {0};
  struct latencies ceiling = {0};
  for (int i = 0; i < STARTS; i++) {
    latencies_add(&ours, ours_ms(self));
    latencies_add(&ceiling, ceiling_ms(self));
  }
  samples_add(samples, 0, OURS, latencies_quantile(&ours, 0.5));
  samples_add(samples, 0, CEILING, latencies_quantile(&ceiling, 0.5));
  latencies_release(&ours);
  latencies_release(&ceiling);
}

static void end(void *context) {
  struct start_bench *self = context;
  rig_release(&self->rig);
  (void)munmap(self->exec_ms, sizeof *self->exec_ms);
  free(self);
}

static const struct row rows[] = {
    {"start, until it waits for a step", "ms", "connect, PING, the same pop", RATIO_AT_MOST, 1.3,
     0},
};

static const struct row tls_rows[] = {
    {"start by TLS, until it waits for a step", "ms", "connect by TLS, PING, the same pop",
     RATIO_AT_MOST, 2.0, 0},
};

const struct measurement bench_start = {.name = "start",
                                        .rows = rows,
                                        .row_count = sizeof rows / sizeof *rows,
                                        .rounds = ROUNDS,
                                        .begin = begin_plain,
                                        .round = round_of_both,
                                        .end = end};

const struct measurement bench_start_tls = {.name = "start-tls",
                                            .rows = tls_rows,
                                            .row_count = sizeof tls_rows / sizeof *tls_rows,
                                            .rounds = ROUNDS,
                                            .begin = begin_tls,
                                            .round = round_of_both,
                                            .end = end};
