/*
 * A line that follows silence, from its write until XREAD BLOCK has brought it to a client. The
 * commands print the time at which they write; it is the clock that this program has, too.
 *
 * Silence takes its time. So a few agents have lines, by turns, and there is nothing else to do for
 * most of the time between two of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/rig.h"

#define ROUNDS 5
#define AGENTS 8
#define LINES 13 /* of each agent in a round */

/* The contract's silence is 100 ms; a line of its own comes only then. */
#define PERIOD_MS 112
#define PHASE_MS (PERIOD_MS / AGENTS)

struct silence_bench {
  struct rig rig;
  struct agent_process *agents[AGENTS];
  char last_ids[AGENTS][32]; /* of the stream's entries that were read */
  char command[PATH_MAX];
  unsigned long steps;
};

static void job_name(char out[16], int agent) {
  (void)snprintf(out, 16, "silence-%d", agent);
}

static void push_steps(struct silence_bench *self) {
  for (int i = 0; i < AGENTS; i++) {
    char step[RIG_STEP_SIZE];
    char arguments[64];
    (void)snprintf(arguments, sizeof arguments, "\"%d\",\"%d\",\"%d\"", LINES, PERIOD_MS,
                   i * PHASE_MS);
    rig_step(step, ++self->steps, self->command, arguments);
    (void)rig_number(self->rig.redis, "LPUSH sandbox:silence-%d:in %s", i, step);
  }
}

static void ask_for_events(struct silence_bench *self) {
  char keys[AGENTS][48];
  const char *words[4 + 2 * AGENTS] = {"XREAD", "BLOCK", "0", "STREAMS"};
  for (int i = 0; i < AGENTS; i++) {
    (void)snprintf(keys[i], sizeof keys[i], "sandbox:silence-%d:events", i);
    words[4 + i] = keys[i];
    words[4 + AGENTS + i] = self->last_ids[i];
  }
  redisAppendCommandArgv(self->rig.redis, 4 + 2 * AGENTS, words, NULL);
}

/* `entry`: its id, and its one field. */
static void read_entry(const redisReply *entry, double now_ms, struct latencies *out) {
  static const char label[] = "\"kind\":\"stdout\",\"line\":\"";
  const char *line = strstr(entry->element[1]->element[1]->str, label);
  if (line != NULL)
    latencies_add(out, now_ms - (double)strtoll(line + sizeof label - 1, NULL, 10) / 1e6);
}

static void read_stream(struct silence_bench *self, const redisReply *stream, double now_ms,
                        struct latencies *out) {
  const redisReply *entries = stream->element[1];
  long agent = strtol(stream->element[0]->str + strlen("sandbox:silence-"), NULL, 10);
  assert_in_range(agent, 0, AGENTS - 1);
  for (size_t i = 0; i < entries->elements; i++) {
    read_entry(entries->element[i], now_ms, out);
    (void)snprintf(self->last_ids[agent], sizeof *self->last_ids, "%s",
                   entries->element[i]->element[0]->str);
  }
}

static double ours_ms(struct silence_bench *self) {
  struct latencies latencies = {0};
  push_steps(self);
  while (latencies.count < AGENTS * LINES) {
    ask_for_events(self);
    redisReply *reply = rig_reply(self->rig.redis);
    double now_ms = latency_now_ms();
    for (size_t i = 0; i < reply->elements; i++)
      read_stream(self, reply->element[i], now_ms, &latencies);
    freeReplyObject(reply);
  }
  for (int i = 0; i < AGENTS; i++)
    rig_do(self->rig.redis, "BRPOP sandbox:silence-%d:results 0", i);
  double p99 = latencies_quantile(&latencies, 0.99);
  latencies_release(&latencies);
  return p99;
}

/* With as much silence between them. */
static double ceiling_ms(struct silence_bench *self) {
  struct latencies latencies = {0};
  for (int i = 0; i < AGENTS * LINES; i++) {
    (void)usleep(PHASE_MS * 1000);
    double begin = latency_now_ms();
    rig_do(self->rig.redis,
           "XADD silence MAXLEN ~ 10000 * data "
           "{\"schemaVersion\":1,\"stepId\":\"00000000-0000-0000-0000-000000000001\","
           "\"kind\":\"stdout\",\"line\":\"1234567890123456\","
           "\"timestamp\":\"2026-05-05T10:00:00.123+00:00\"}");
    latencies_add(&latencies, latency_now_ms() - begin);
  }
  double p99 = latencies_quantile(&latencies, 0.99);
  latencies_release(&latencies);
  return p99;
}

static void *begin(void) {
  struct silence_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  rig_init(&self->rig);
  rig_program(self->command, "pulse");
  for (int i = 0; i < AGENTS; i++) {
    char job[16];
    job_name(job, i);
    self->agents[i] = rig_start_agent(&self->rig, job, NULL);
    (void)snprintf(self->last_ids[i], sizeof self->last_ids[i], "0");
  }
  rig_wait_idle(&self->rig, AGENTS);
  return self;
}

static void round_of_both(void *context, size_t round, struct samples *samples) {
  (void)round;
  struct silence_bench *self = context;
  samples_add(samples, 0, OURS, ours_ms(self));
  samples_add(samples, 0, CEILING, ceiling_ms(self));
}

static void end(void *context) {
  struct silence_bench *self = context;
  for (int i = 0; i < AGENTS; i++)
    agent_process_free(self->agents[i]);
  rig_release(&self->rig);
  free(self);
}

static const struct row rows[] = {
    {"a line after silence, p99", "ms", "one XADD", OURS_AT_MOST, 2},
};

const struct measurement bench_silence = {.name = "silence",
                                          .rows = rows,
                                          .row_count = sizeof rows / sizeof *rows,
                                          .rounds = ROUNDS,
                                          .begin = begin,
                                          .round = round_of_both,
                                          .end = end};
