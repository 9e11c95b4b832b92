/*
 * Measures the agent beside the best that the machine allows.
 *
 *   bench [--json] [NAME…]     these measurements, or all
 *
 * The agent is $AGENT. $BASELINE, if it is set, is another build to compare with: the two take
 * turns, round by round. The server is $REDIS_SERVER, the programs of bench/programs are in
 * $BENCH_PROGRAMS. The table, or with --json the same as JSON, goes to standard output, progress to
 * standard error. A run that has completed all measurements and compared nothing also writes its
 * JSON to build/bench.json. The exit code is 0 if everything that was asked for was measured,
 * whatever the figures are.
 */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measurements.h"
#include "bench/table.h"
#include "tests/support/agent_process.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define JSON_PATH "build/bench.json"

/* In the order of the table. */
enum { MEASUREMENTS = 16 };
static const struct measurement *const measurements[MEASUREMENTS] = {
    &bench_output,    &bench_output_tls, &bench_step,       &bench_queue, &bench_pace, &bench_start,
    &bench_start_tls, &bench_memory,     &bench_memory_tls, &bench_fleet, &bench_grep, &bench_tools,
    &bench_ends,      &bench_client,     &bench_http,       &bench_fence,
};

struct bench {
  char directory[PATH_MAX];
  struct outcome outcomes[MEASUREMENTS];
  size_t count;
  int told_to_end; /* by this signal */
};

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk) {
  (void)status;
  (void)kind;
  if (walk->level > 0)
    remove(path);
  return 0;
}

static const char *baseline(void) {
  const char *program = getenv("BASELINE");
  return program == NULL || *program == '\0' ? NULL : program;
}

static sigset_t signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

/* Chooses the named measurements, in the order of the table, or all if none is named. Returns false
   if a name is unknown. */
static bool choose(struct bench *self, char **names) {
  bool wanted[MEASUREMENTS] = {false};
  for (char **name = names; *name != NULL; name++) {
    size_t i = 0;
    while (i < MEASUREMENTS && strcmp(*name, measurements[i]->name) != 0)
      i++;
    if (i == MEASUREMENTS)
      return false;
    wanted[i] = true;
  }
  for (size_t i = 0; i < MEASUREMENTS; i++)
    if (*names == NULL || wanted[i])
      self->outcomes[self->count++].measurement = measurements[i];
  return true;
}

static void make_directory(struct bench *self) {
  const char *temporary = getenv("TMPDIR");
  snprintf(self->directory, sizeof self->directory, "%s/bench-XXXXXX",
           temporary == NULL || *temporary == '\0' ? "/tmp" : temporary);
  assert_non_null(mkdtemp(self->directory));
  assert_int_equal(setenv("TMPDIR", self->directory, 1), 0);
}

/* From here on, the agent or the baseline is measured. */
static void select_program(const char *const programs[2], size_t which, struct samples *samples) {
  samples->of_baseline = which == 1;
  assert_int_equal(setenv("AGENT", programs[which], 1), 0);
}

/* Each has a process of its own, so that what one leaves in memory does not slow down the next. The
   two programs take turns to begin a round. */
static _Noreturn void measure(const struct measurement *measurement, struct samples *samples) {
  const char *const programs[2] = {strdup(agent_process_program()), baseline()};
  size_t count = programs[1] == NULL ? 1 : 2;
  void *contexts[2] = {NULL, NULL};
  sigset_t set = signals();
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  signal(SIGPIPE, SIG_IGN);
  for (size_t i = 0; i < count && measurement->begin != NULL; i++) {
    select_program(programs, i, samples);
    contexts[i] = measurement->begin();
  }
  for (size_t round = 0; round < measurement->rounds; round++) {
    fprintf(stderr, "  BENCH   %s, round %zu of %zu\n", measurement->name, round + 1,
            measurement->rounds);
    for (size_t i = 0; i < count; i++) {
      size_t which = (round + i) % count;
      select_program(programs, which, samples);
      measurement->round(contexts[which], round, samples);
    }
  }
  for (size_t i = 0; i < count && measurement->end != NULL; i++)
    measurement->end(contexts[i]);
  samples->whole = true;
  exit(0);
}

/* Waits until the child has ended or a signal ends this program. */
static void wait_for(struct bench *self, pid_t pid) {
  sigset_t set = signals();
  int number, status;
  for (pid_t ended = 0; ended != pid && self->told_to_end == 0;) {
    ended = waitpid(-1, &status, WNOHANG); /* agents leave orphans to this process */
    if (ended == 0 && ((number = sigwaitinfo(&set, NULL)) == SIGINT || number == SIGTERM))
      self->told_to_end = number;
  }
  /* Processes that a failed measurement has left behind were re-parented to this one. */
  proc_kill_children(getpid());
  while (waitpid(-1, &status, 0) > 0 || errno == EINTR) {
  }
}

static void run(struct bench *self, struct outcome *outcome) {
  pid_t parent = getpid();
  int64_t begin_ms = wait_now_ms();
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
      measure(outcome->measurement, outcome->samples);
    _exit(1);
  }
  wait_for(self, pid);
  nftw(self->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  fprintf(stderr, "  BENCH   %s%s, %.1f s\n", outcome->measurement->name,
          outcome->samples->whole ? "" : " could not be measured",
          (double)(wait_now_ms() - begin_ms) / 1000);
}

static void keep(const char *json) {
  FILE *file = fopen(JSON_PATH, "we");
  if (file == NULL || fprintf(file, "%s\n", json) < 0 || fclose(file) != 0)
    fail_msg("%s: %s", JSON_PATH, strerror(errno));
}

static void print(const struct bench *self, bool as_json, bool whole, double seconds) {
  char *json = table_json(self->outcomes, self->count, seconds);
  if (whole && self->count == MEASUREMENTS && baseline() == NULL)
    keep(json);
  else
    fprintf(stderr,
            "  BENCH   " JSON_PATH " is unchanged: it is written by a complete run alone\n");
  if (as_json)
    printf("%s\n", json);
  else
    table_print(stdout, self->outcomes, self->count);
  free(json);
}

int main(int argc, char **argv) {
  struct bench bench = {0};
  bool as_json = argc > 1 && strcmp(argv[1], "--json") == 0;
  bool whole = true;
  int64_t begin_ms = wait_now_ms();
  if (!choose(&bench, argv + (as_json ? 2 : 1))) {
    fprintf(stderr, "usage: %s [--json] [NAME...]; names are", argv[0]);
    for (size_t i = 0; i < MEASUREMENTS; i++)
      fprintf(stderr, " %s", measurements[i]->name);
    fprintf(stderr, "\n");
    return 64;
  }
  make_directory(&bench);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t set = signals();
  sigprocmask(SIG_BLOCK, &set, NULL);
  for (size_t i = 0; i < bench.count; i++)
    bench.outcomes[i].samples = samples_new();
  for (size_t i = 0; i < bench.count && bench.told_to_end == 0; i++) {
    run(&bench, &bench.outcomes[i]);
    whole = whole && bench.outcomes[i].samples->whole;
  }
  if (bench.told_to_end == 0)
    print(&bench, as_json, whole, (double)(wait_now_ms() - begin_ms) / 1000);
  for (size_t i = 0; i < bench.count; i++)
    samples_free(bench.outcomes[i].samples);
  rmdir(bench.directory);
  return bench.told_to_end != 0 ? 128 + bench.told_to_end : whole ? 0 : 1;
}
