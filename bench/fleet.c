/*
 * Three hundred agents that wait for steps at one Redis: their memory, where each shared page
 * counts once, and their processor time, beside that of the server.
 */
#include <signal.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/rig.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define AGENTS 300
#define PSS_LIMIT_MIB 150
#define PROCESSOR_LIMIT_PERCENT 0.5

/* An idle agent asks again every 10 s (INTAKE_BLOCK_SECONDS), and all began at about the same time:
   each of them asks once in a window, and not near its ends. */
#define ROUNDS 5
#define WINDOW_SECONDS 10
#define SETTLE_SECONDS 3

struct fleet_bench {
  struct rig rig;
  struct agent_process *agents[AGENTS];
};

static double fleet_processor_ms(const struct fleet_bench *self) {
  double ms = 0;
  for (size_t i = 0; i < AGENTS; i++)
    ms += processor_ms(agent_process_pid(self->agents[i]));
  return ms;
}

static double pss_kib(struct agent_process *agent) {
  static const char label[] = "\nPss:";
  char *rollup = proc_read(agent_process_pid(agent), "smaps_rollup", NULL);
  const char *found = rollup == NULL ? NULL : strstr(rollup, label);
  long kib = found == NULL ? 0 : strtol(found + sizeof label - 1, NULL, 10);
  free(rollup);
  if (kib <= 0)
    agent_process_fail(agent, "the agent has no Pss");
  return (double)kib;
}

static double fleet_pss_mib(const struct fleet_bench *self) {
  double kib = 0;
  for (size_t i = 0; i < AGENTS; i++)
    kib += pss_kib(self->agents[i]);
  return kib / 1024;
}

static void *begin(void) {
  struct fleet_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  rig_init(&self->rig);
  for (size_t i = 0; i < AGENTS; i++) {
    char job[32];
    (void)snprintf(job, sizeof job, "fleet-%zu", i);
    self->agents[i] = rig_start_agent(&self->rig, job, NULL);
  }
  rig_wait_idle(&self->rig, AGENTS);
  (void)sleep(SETTLE_SECONDS);
  return self;
}

static void round_of_ours(void *context, size_t round, struct samples *samples) {
  (void)round;
  struct fleet_bench *self = context;
  pid_t server = (pid_t)rig_info(&self->rig, "process_id");
  samples_add(samples, 0, OURS, fleet_pss_mib(self));
  double begin = latency_now_ms();
  double agents_ms = fleet_processor_ms(self);
  double server_ms = processor_ms(server);
  (void)sleep(WINDOW_SECONDS);
  agents_ms = fleet_processor_ms(self) - agents_ms;
  server_ms = processor_ms(server) - server_ms;
  double ms = latency_now_ms() - begin;
  samples_add(samples, 1, OURS, agents_ms / ms * 100);
  samples_add(samples, 1, CEILING, server_ms / ms * 100);
}

/* All are killed before the first one is waited for: one after another would take long. */
static void end(void *context) {
  struct fleet_bench *self = context;
  for (size_t i = 0; i < AGENTS; i++)
    (void)kill(agent_process_pid(self->agents[i]), SIGKILL);
  for (size_t i = 0; i < AGENTS; i++) {
    (void)agent_process_wait(self->agents[i], WAIT_BOUND_MS);
    agent_process_free(self->agents[i]);
  }
  rig_release(&self->rig);
  free(self);
}

static const struct row rows[] = {
    {"300 idle agents, memory (PSS)", "MiB", NULL, OURS_AT_MOST, PSS_LIMIT_MIB, 0},
    {"300 idle agents, processor", "% of a core", "redis-server", OURS_AT_MOST,
     PROCESSOR_LIMIT_PERCENT, 0},
};

const struct measurement bench_fleet = {"fleet",       rows, ROW_COUNT(rows), ROUNDS, begin,
                                        round_of_ours, end};
