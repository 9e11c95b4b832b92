/*
 * Output: lines through a `run` step, from LPUSH to the result being in the list, by when all
 * events are in the stream. The ceiling is a sender that sends the same commands to the same
 * server, and has nothing else to do; of three depths the best.
 *
 * By TLS all of that is done with both by TLS, the sender's by the agent's own code; and in each
 * round an agent at a server of its own does the same by plain TCP.
 */

#include "bench/measurements.h"
#include "bench/printers.h"
#include "bench/processor.h"
#include "bench/sender.h"
#include "bench/xadds.h"
#include "tests/test.h"

#define LINES 1000000

enum { RATE, PROCESSOR, BESIDE_PLAIN = PROCESSOR };

struct output_bench {
  struct rig rig;
  struct printers printers;
  struct rig plain_rig; /* by TLS alone, these two */
  struct printers plain_printers;
  bool is_tls;
  pid_t agent;
  pid_t server;
  char source[PRINTERS_KEY_SIZE];
  char key[PRINTERS_KEY_SIZE];
  struct xadds xadds;
};

/* One run of ours before all rounds: its events are the pattern of the ceiling's. */
static struct output_bench *begin(void (*init)(struct rig *)) {
  struct output_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  init(&self->rig);
  self->is_tls = self->rig.endpoint.tls != NULL;
  printers_init(&self->printers, &self->rig, 1);
  self->agent = agent_process_pid(self->printers.agents[0]);
  self->server = (pid_t)rig_info(&self->rig, "process_id");
  printers_key(self->source, 0, "events");
  printers_key(self->key, 1, "events");
  (void)printers_print(&self->printers, 1, LINES);
  xadds_init(&self->xadds, self->rig.redis, self->source, self->key, LINES);
  return self;
}

static void *begin_plain(void) {
  return begin(rig_init);
}

static void *begin_tls(void) {
  struct output_bench *self = begin(rig_init_tls);
  rig_init(&self->plain_rig);
  printers_init(&self->plain_printers, &self->plain_rig, 1);
  (void)printers_print(&self->plain_printers, 1, LINES);
  return self;
}

static void measure_ours(struct output_bench *self, struct samples *samples) {
  double agent_ms = processor_ms(self->agent), server_ms = processor_ms(self->server);
  double rate = LINES / printers_print(&self->printers, 1, LINES);
  agent_ms = (processor_ms(self->agent) - agent_ms) / LINES * 1e3;
  server_ms = (processor_ms(self->server) - server_ms) / LINES * 1e3;
  samples_add(samples, RATE, OURS, rate);
  if (self->is_tls) {
    samples_add(samples, BESIDE_PLAIN, OURS, rate);
    samples_beside(samples, RATE, "the agent's processor, us/line", agent_ms);
    samples_beside(samples, RATE, "redis-server's processor, us/line", server_ms);
  } else {
    samples_add(samples, PROCESSOR, OURS, agent_ms);
    samples_add(samples, PROCESSOR, CEILING, server_ms);
  }
}

static void measure_ceiling(struct output_bench *self, struct samples *samples) {
  static const size_t depths[] = {50, 200, 1000};
  double best = 0;
  for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
    double rate = LINES / sender_run(&self->rig.endpoint, &self->xadds, depths[i]);
    char label[32];
    (void)snprintf(label, sizeof label, "ceiling at depth %zu", depths[i]);
    samples_beside(samples, RATE, label, rate);
    if (rate > best)
      best = rate;
  }
  xadds_check(&self->xadds, self->rig.redis);
  samples_add(samples, RATE, CEILING, best);
}

static void measure_plain(struct output_bench *self, struct samples *samples) {
  samples_add(samples, BESIDE_PLAIN, CEILING,
              LINES / printers_print(&self->plain_printers, 1, LINES));
}

/* By TLS the two agents are measured one directly after the other, each first by turns. */
static void round_of_all(void *context, size_t round, struct samples *samples) {
  struct output_bench *self = context;
  if (self->is_tls && round % 2 == 1)
    measure_plain(self, samples);
  measure_ours(self, samples);
  if (self->is_tls && round % 2 == 0)
    measure_plain(self, samples);
  measure_ceiling(self, samples);
}

static void end(void *context) {
  struct output_bench *self = context;
  if (self->is_tls) {
    printers_release(&self->plain_printers);
    rig_release(&self->plain_rig);
  }
  xadds_release(&self->xadds);
  printers_release(&self->printers);
  rig_release(&self->rig);
  free(self);
}

static const struct row rows[] = {
    [RATE] = {"output, 1,000,000 lines", "lines/s", "the same XADDs from a bare sender",
              RATIO_AT_LEAST, 0.90, 0},
    [PROCESSOR] = {"output, the agent's processor", "us/line", "redis-server's own in that run",
                   RATIO_AT_MOST, 0.35, 0},
};

static const struct row tls_rows[] = {
    [RATE] = {"output by TLS, 1,000,000 lines", "lines/s",
              "the same XADDs from a bare sender by TLS", RATIO_AT_LEAST, 0.85, 0},
    [BESIDE_PLAIN] = {"output by TLS, beside plain TCP", "lines/s",
                      "the same agent by plain TCP, in the same round", RATIO_AT_LEAST, 0.70, 0},
};

const struct measurement bench_output = {.name = "output",
                                         .rows = rows,
                                         .row_count = sizeof rows / sizeof *rows,
                                         .rounds = 5,
                                         .begin = begin_plain,
                                         .round = round_of_all,
                                         .end = end};

const struct measurement bench_output_tls = {.name = "output-tls",
                                             .rows = tls_rows,
                                             .row_count = sizeof tls_rows / sizeof *tls_rows,
                                             .rounds = 6,
                                             .begin = begin_tls,
                                             .round = round_of_all,
                                             .end = end};
