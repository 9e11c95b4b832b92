/*
 * Output: lines through a `run` step, from LPUSH to the result being in the list, by when all
 * events are in the stream. The ceiling is a sender that sends the same commands to the same
 * server, and has nothing else to do; of three depths the best.
 */

#include "bench/measurements.h"
#include "bench/printers.h"
#include "bench/processor.h"
#include "bench/sender.h"
#include "bench/xadds.h"
#include "tests/test.h"

#define LINES 1000000

enum { RATE, PROCESSOR };

struct output_bench {
  struct rig rig;
  struct printers printers;
  pid_t agent;
  pid_t server;
  char source[PRINTERS_KEY_SIZE];
  char key[PRINTERS_KEY_SIZE];
  struct xadds xadds;
};

/* One run of ours before all rounds: its events are the pattern of the ceiling's. */
static void *begin(void) {
  struct output_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  rig_init(&self->rig);
  printers_init(&self->printers, &self->rig, 1);
  self->agent = agent_process_pid(self->printers.agents[0]);
  self->server = (pid_t)rig_info(&self->rig, "process_id");
  printers_key(self->source, 0, "events");
  printers_key(self->key, 1, "events");
  (void)printers_print(&self->printers, 1, LINES);
  xadds_init(&self->xadds, self->rig.redis, self->source, self->key, LINES);
  return self;
}

static void measure_ours(struct output_bench *self, struct samples *samples) {
  double agent_ms = processor_ms(self->agent), server_ms = processor_ms(self->server);
  samples_add(samples, RATE, OURS, LINES / printers_print(&self->printers, 1, LINES));
  agent_ms = processor_ms(self->agent) - agent_ms;
  server_ms = processor_ms(self->server) - server_ms;
  samples_add(samples, PROCESSOR, OURS, agent_ms / LINES * 1e3);
  samples_add(samples, PROCESSOR, CEILING, server_ms / LINES * 1e3);
}

static void measure_ceiling(struct output_bench *self, struct samples *samples) {
  static const size_t depths[] = {50, 200, 1000};
  double best = 0;
  for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
    double rate = LINES / sender_run(redis_server_port(self->rig.server), &self->xadds, depths[i]);
    char label[32];
    (void)snprintf(label, sizeof label, "ceiling at depth %zu", depths[i]);
    samples_beside(samples, RATE, label, rate);
    if (rate > best)
      best = rate;
  }
  xadds_check(&self->xadds, self->rig.redis);
  samples_add(samples, RATE, CEILING, best);
}

static void round_of_both(void *context, size_t round, struct samples *samples) {
  (void)round;
  measure_ours(context, samples);
  measure_ceiling(context, samples);
}

static void end(void *context) {
  struct output_bench *self = context;
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

const struct measurement bench_output = {.name = "output",
                                         .rows = rows,
                                         .row_count = sizeof rows / sizeof *rows,
                                         .rounds = 5,
                                         .begin = begin,
                                         .round = round_of_both,
                                         .end = end};
