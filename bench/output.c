/*
 * Lines of a `run` step, from its LPUSH until its result is in the list; by then all events are in
 * the stream. The ceiling is a sender that sends the same commands to the same server and does
 * nothing else, at the best of three depths.
 *
 * Over TLS both use TLS, the sender with the agent's own code. In each round an agent at another
 * server does the same over plain TCP.
 */
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/printer.h"
#include "bench/sender.h"
#include "bench/xadds.h"
#include "tests/test.h"

#define LINES 1000000
#define SENDER_KEY "sandbox:senders:events" /* as long as PRINTER_EVENTS */

enum { RATE, PROCESSOR, BESIDE_PLAIN = PROCESSOR };

struct output_bench {
  struct rig rig;
  struct printer printer;
  struct rig plain_rig; /* only over TLS, as the next */
  struct printer plain_printer;
  bool is_tls;
  pid_t agent;
  pid_t server;
  struct xadds xadds;
};

/* Ours runs once before all rounds: its events are the pattern of the sender's. */
static struct output_bench *begin(void (*init)(struct rig *)) {
  struct output_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  init(&self->rig);
  self->is_tls = self->rig.endpoint.tls != NULL;
  printer_init(&self->printer, &self->rig);
  self->agent = agent_process_pid(self->printer.agent);
  self->server = (pid_t)rig_info(&self->rig, "process_id");
  (void)printer_print(&self->printer, LINES);
  xadds_init(&self->xadds, self->rig.redis, PRINTER_EVENTS, SENDER_KEY, LINES);
  return self;
}

static void *begin_plain(void) {
  return begin(rig_init);
}

static void *begin_tls(void) {
  struct output_bench *self = begin(rig_init_tls);
  rig_init(&self->plain_rig);
  printer_init(&self->plain_printer, &self->plain_rig);
  (void)printer_print(&self->plain_printer, LINES);
  return self;
}

static void measure_ours(struct output_bench *self, struct samples *samples) {
  double agent_ms = processor_ms(self->agent), server_ms = processor_ms(self->server);
  double rate = LINES / printer_print(&self->printer, LINES);
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
  samples_add(samples, BESIDE_PLAIN, CEILING, LINES / printer_print(&self->plain_printer, LINES));
}

/* Over TLS the two agents are measured directly after each other, and take turns to begin. */
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
    printer_release(&self->plain_printer);
    rig_release(&self->plain_rig);
  }
  xadds_release(&self->xadds);
  printer_release(&self->printer);
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
    [RATE] = {"output over TLS, 1,000,000 lines", "lines/s",
              "the same XADDs from a bare sender over TLS", RATIO_AT_LEAST, 0.85, 0},
    [BESIDE_PLAIN] = {"output over TLS, beside plain TCP", "lines/s",
                      "the same agent over plain TCP, in the same round", RATIO_AT_LEAST, 0.70, 0},
};

const struct measurement bench_output = {"output",     rows, ROW_COUNT(rows), 5, begin_plain,
                                         round_of_all, end};

const struct measurement bench_output_tls = {
    "output-tls", tls_rows, ROW_COUNT(tls_rows), 6, begin_tls, round_of_all, end};
