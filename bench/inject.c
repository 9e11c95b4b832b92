/*
 * `agent --inject DIRECTORY/agent` against `cp` of the same file to the same directory, and an
 * fsync of the copy.
 *
 * Neither finds a file of the name that it writes. The agent also reads its copy back, and makes
 * its name as durable as what is in it.
 */
#include <fcntl.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/rig.h"
#include "tests/test.h"

#define ROUNDS 7
#define INJECTIONS 20
#define CP "/bin/cp"

struct inject_bench {
  char agent[PATH_MAX];
  char directory[PATH_MAX];
  char target[PATH_MAX + 16];
  int output; /* where this program's own goes; the agent's, which says what it did, does not */
};

static void remove_target(const struct inject_bench *self) {
  assert_int_equal(unlink(self->target), 0);
}

static double ours_ms(const struct inject_bench *self) {
  double begin = latency_now_ms();
  rig_spawn((const char *[]){self->agent, "--inject", self->target, NULL});
  double ms = latency_now_ms() - begin;
  remove_target(self);
  return ms;
}

static double ceiling_ms(const struct inject_bench *self) {
  double begin = latency_now_ms();
  rig_spawn((const char *[]){CP, self->agent, self->target, NULL});
  int fd = open(self->target, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fsync(fd) != 0 || close(fd) != 0)
    fail_msg("%s cannot be synchronised", self->target);
  double ms = latency_now_ms() - begin;
  remove_target(self);
  return ms;
}

static void *begin(void) {
  struct inject_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  if (realpath(agent_process_program(), self->agent) == NULL)
    fail_msg("no program %s", agent_process_program());
  const char *temporary = getenv("TMPDIR");
  (void)snprintf(self->directory, sizeof self->directory, "%s/inject-XXXXXX",
                 temporary == NULL || *temporary == '\0' ? "/tmp" : temporary);
  if (mkdtemp(self->directory) == NULL)
    fail_msg("no directory %s", self->directory);
  (void)snprintf(self->target, sizeof self->target, "%s/agent", self->directory);
  self->output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  assert_true(self->output >= 0 && dup2(null, STDOUT_FILENO) == STDOUT_FILENO);
  (void)close(null);
  (void)ours_ms(self);
  (void)ceiling_ms(self);
  return self;
}

static void round_of_both(void *context, size_t round, struct samples *samples) {
  (void)round;
  const struct inject_bench *self = context;
  struct latencies ours = {0};
  struct latencies ceiling = {0};
  for (int i = 0; i < INJECTIONS; i++) {
    latencies_add(&ours, ours_ms(self));
    latencies_add(&ceiling, ceiling_ms(self));
  }
  samples_add(samples, 0, OURS, latencies_quantile(&ours, 0.5));
  samples_add(samples, 0, CEILING, latencies_quantile(&ceiling, 0.5));
  latencies_release(&ours);
  latencies_release(&ceiling);
}

static void end(void *context) {
  struct inject_bench *self = context;
  (void)dup2(self->output, STDOUT_FILENO);
  (void)close(self->output);
  (void)rmdir(self->directory);
  free(self);
}

static const struct row rows[] = {
    {"inject", "ms", "cp and fsync", RATIO_AT_MOST, 1.2, 0},
};

const struct measurement bench_inject = {.name = "inject",
                                         .rows = rows,
                                         .row_count = sizeof rows / sizeof *rows,
                                         .rounds = ROUNDS,
                                         .begin = begin,
                                         .round = round_of_both,
                                         .end = end};
