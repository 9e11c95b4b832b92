/*
 * Growth: what a line costs whether there are ten thousand of them or ten million, and what many
 * agents that print at once get through one Redis, beside one agent that prints as many lines. As
 * many bare senders at once show how much of the difference is the server's own.
 *
 * Counted is until the last line is in the stream: what the result brings along, a megabyte of the
 * output at most, is none of the lines' cost. The time of a line is that of its step without the
 * time of a step that prints one line, so that what is paid once per step is not taken for it.
 */
#include <math.h>

#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/printers.h"
#include "bench/senders.h"
#include "tests/test.h"

#define ROUNDS 5
#define LINES 1000000
#define LINES_TO_FILL 12000 /* a stream: it keeps about 10,000 events */

enum { PER_LINE, FEW, MANY, ROWS };
enum { FEW_AGENTS = 10, MANY_AGENTS = PRINTERS_MAX };

/* Steps of each size in a round: so many that chance evens out. The largest takes ten seconds, and
   has the round in the middle only. */
struct size {
  const char *label;
  long lines;
  int runs;
};

static const struct size sizes[] = {
    {"10,000 lines, ns each", 10000, 9},
    {"100,000 lines, ns each", 100000, 3},
    {"1,000,000 lines, ns each", 1000000, 1},
    {"10,000,000 lines, ns each", 10000000, 1},
};

enum { MILLION = 2, LARGEST = 3, LARGEST_ROUND = ROUNDS / 2 };
enum { SIZES = sizeof sizes / sizeof *sizes };

/* One agent alone, and many at a server of their own: while they wait, they are a load too. */
struct growth_bench {
  struct rig rig;
  struct rig crowded_rig;
  struct printers one;
  struct printers crowd;
  struct senders one_sender; /* all of them into the streams of the crowd */
  struct senders few_senders;
  struct senders many_senders;
  struct latencies per_line_ns[SIZES];
  struct latencies relative[SIZES]; /* to a million lines in the same round */
};

static double print(struct printers *printers, size_t agents, long lines) {
  (void)printers_print(printers, agents, lines);
  return printers_last_line(printers, agents);
}

/* Every stream is full before anything is timed: an agent's first lines trim nothing. */
static void *begin(void) {
  struct growth_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  rig_init(&self->rig);
  rig_init(&self->crowded_rig);
  printers_init(&self->one, &self->rig, 1);
  printers_init(&self->crowd, &self->crowded_rig, MANY_AGENTS);
  (void)print(&self->one, 1, LINES_TO_FILL);
  (void)print(&self->crowd, MANY_AGENTS, LINES_TO_FILL);
  senders_init(&self->one_sender, &self->crowded_rig, 1, LINES);
  senders_init(&self->few_senders, &self->crowded_rig, FEW_AGENTS, LINES / FEW_AGENTS);
  senders_init(&self->many_senders, &self->crowded_rig, MANY_AGENTS, LINES / MANY_AGENTS);
  return self;
}

static double median_seconds(struct growth_bench *self, long lines, int runs) {
  struct latencies seconds = {0};
  for (int i = 0; i < runs; i++)
    latencies_add(&seconds, print(&self->one, 1, lines));
  double median = latencies_quantile(&seconds, 0.5);
  latencies_release(&seconds);
  return median;
}

static void measure_lines(struct growth_bench *self, size_t round, struct samples *samples) {
  double ns[SIZES];
  size_t count = round == LARGEST_ROUND ? SIZES : LARGEST;
  double one_line = median_seconds(self, 1, 15);
  for (size_t i = 0; i < count; i++) {
    double seconds = median_seconds(self, sizes[i].lines, sizes[i].runs) - one_line;
    ns[i] = seconds / (double)(sizes[i].lines - 1) * 1e9;
    latencies_add(&self->per_line_ns[i], ns[i]);
    samples_beside(samples, PER_LINE, sizes[i].label, ns[i]);
  }
  for (size_t i = 0; i < count; i++)
    latencies_add(&self->relative[i], ns[i] / ns[MILLION]);
}

/* One pair of figures comes of all rounds: the extremes of a single round are mostly noise. */
static void judge_lines(struct growth_bench *self, struct samples *samples) {
  double million_ns = latencies_quantile(&self->per_line_ns[MILLION], 0.5);
  double most = 1, least = 1;
  for (size_t i = 0; i < SIZES; i++) {
    double relative = latencies_quantile(&self->relative[i], 0.5);
    most = fmax(most, relative);
    least = fmin(least, relative);
    latencies_release(&self->relative[i]);
    latencies_release(&self->per_line_ns[i]);
  }
  samples_add(samples, PER_LINE, OURS, most * million_ns);
  samples_add(samples, PER_LINE, CEILING, least * million_ns);
}

static double rate(struct growth_bench *self, size_t agents) {
  return LINES / print(&self->crowd, agents, LINES / (long)agents);
}

static void measure_agents(struct growth_bench *self, struct samples *samples) {
  double few = rate(self, FEW_AGENTS);
  double one = rate(self, 1);
  double many = rate(self, MANY_AGENTS);
  samples_add(samples, FEW, OURS, few);
  samples_add(samples, FEW, CEILING, one);
  samples_add(samples, MANY, OURS, many);
  samples_add(samples, MANY, CEILING, one);
}

static void measure_senders(struct growth_bench *self, struct samples *samples) {
  double few = senders_run(&self->few_senders);
  double one = senders_run(&self->one_sender);
  double many = senders_run(&self->many_senders);
  samples_beside(samples, FEW, "10 bare senders at once, of one's rate", one / few);
  samples_beside(samples, MANY, "100 bare senders at once, of one's rate", one / many);
}

static void measure_round(void *context, size_t round, struct samples *samples) {
  measure_lines(context, round, samples);
  measure_agents(context, samples);
  /* Nobody judges them, and the rest takes most of a minute. */
  if (round % 2 == 0)
    measure_senders(context, samples);
  if (round + 1 == ROUNDS)
    judge_lines(context, samples);
}

static void end(void *context) {
  struct growth_bench *self = context;
  senders_release(&self->many_senders);
  senders_release(&self->few_senders);
  senders_release(&self->one_sender);
  printers_release(&self->crowd);
  printers_release(&self->one);
  rig_release(&self->crowded_rig);
  rig_release(&self->rig);
  free(self);
}

static const struct row rows[ROWS] = {
    [PER_LINE] = {"growth, 10^4 to 10^7 lines", "ns/line",
                  "the time of a line where it is shortest, ours where it is longest",
                  RATIO_AT_MOST, 1.10, 0},
    [FEW] = {"growth, 10 agents at once", "lines/s", "one agent with as many lines", RATIO_AT_LEAST,
             1.0, 0},
    [MANY] = {"growth, 100 agents at once", "lines/s", "one agent with as many lines",
              RATIO_AT_LEAST, 1.0, 0},
};

const struct measurement bench_growth = {.name = "growth",
                                         .rows = rows,
                                         .row_count = ROWS,
                                         .rounds = ROUNDS,
                                         .begin = begin,
                                         .round = measure_round,
                                         .end = end};
