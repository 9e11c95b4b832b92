/*
 * The client: `sandbox run -- true`, from exec to exit, beside a program that does the same in
 * three round trips (programs/order.c); and a run of 1,000,000 lines, beside the same step while
 * nobody reads its events.
 */
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/rig.h"
#include "tests/test.h"

#define JOB "client"
#define ROUNDS 5
#define STEPS 100
#define WARM_UP 5
#define LINES 1000000
#define LINE_SIZE 61 /* of programs/lines */

enum { STEP, LINES_ROW };

struct client_bench {
  struct rig rig;
  struct agent_process *agent;
  redisContext *results;
  char client[PATH_MAX], order[PATH_MAX], lines[PATH_MAX];
  char port[16];
  unsigned long steps;
};

/* $SANDBOX, or the client next to the agent. */
static void find_client(char out[PATH_MAX]) {
  const char *client = getenv("SANDBOX");
  char path[PATH_MAX] = "";
  if (client == NULL)
    (void)snprintf(path, sizeof path, "%.*s/sandbox",
                   (int)(strrchr(agent_process_program(), '/') - agent_process_program()),
                   agent_process_program());
  if (realpath(client != NULL ? client : path, out) == NULL || access(out, X_OK) != 0)
    fail_msg("no program %s; SANDBOX names the client", client != NULL ? client : path);
}

/* The stream is unbounded, so that nothing is trimmed before it is read. */
static void *begin(void) {
  struct client_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  rig_init(&self->rig);
  self->results = rig_connect(&self->rig);
  find_client(self->client);
  rig_program(self->order, "order");
  rig_program(self->lines, "lines");
  (void)snprintf(self->port, sizeof self->port, "%d", redis_server_port(self->rig.server));
  self->agent = rig_start_agent(&self->rig, JOB, (const char *[]){"--events-maxlen", "0", NULL});
  rig_wait_idle(&self->rig, 1);
  return self;
}

static double client_ms(const struct client_bench *self) {
  double begin_ms = latency_now_ms();
  rig_spawn((const char *[]){self->client, "--redis-url", self->rig.endpoint.url, "--job", JOB,
                             "run", "--", "true", NULL});
  return latency_now_ms() - begin_ms;
}

static double order_ms(struct client_bench *self) {
  char step[RIG_STEP_SIZE];
  rig_step(step, ++self->steps, "true", "");
  double begin_ms = latency_now_ms();
  rig_spawn((const char *[]){self->order, self->port, JOB, step, NULL});
  return latency_now_ms() - begin_ms;
}

/* The seconds until the client has exited, and all of the lines are in a file. */
static double client_seconds(const struct client_bench *self) {
  char path[PATH_MAX], count[16];
  posix_spawn_file_actions_t actions;
  struct stat status;
  pid_t pid;
  int code;
  (void)snprintf(path, sizeof path, "%s/lines", getenv("TMPDIR"));
  (void)snprintf(count, sizeof count, "%d", LINES);
  const char *const arguments[] = {
      self->client, "--redis-url", self->rig.endpoint.url, "--job", JOB, "run", "--", self->lines,
      count,        NULL};
  assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
  assert_int_equal(posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, path,
                                                    O_WRONLY | O_CREAT | O_TRUNC, 0600),
                   0);
  double begin_ms = latency_now_ms();
  assert_int_equal(
      posix_spawn(&pid, self->client, &actions, NULL, (char **)(uintptr_t)arguments, environ), 0);
  assert_int_equal(waitpid(pid, &code, 0), pid);
  double seconds = (latency_now_ms() - begin_ms) / 1e3;
  posix_spawn_file_actions_destroy(&actions);
  assert_int_equal(code, 0);
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_size, (off_t)LINES * LINE_SIZE);
  assert_int_equal(unlink(path), 0);
  return seconds;
}

static double unread_seconds(struct client_bench *self) {
  char step[RIG_STEP_SIZE], arguments[32];
  (void)snprintf(arguments, sizeof arguments, "\"%d\"", LINES);
  rig_step(step, ++self->steps, self->lines, arguments);
  return rig_step_ms(&self->rig, self->results, JOB, step) / 1e3;
}

static void measure_steps(struct client_bench *self, struct samples *samples) {
  double ours[STEPS], ceiling[STEPS];
  for (int i = 0; i < WARM_UP; i++)
    (void)client_ms(self);
  for (int i = 0; i < STEPS; i++) {
    ours[i] = client_ms(self);
    ceiling[i] = order_ms(self);
  }
  samples_add(samples, STEP, OURS, latency_quantile(ours, STEPS, 0.5));
  samples_add(samples, STEP, CEILING, latency_quantile(ceiling, STEPS, 0.5));
}

/* They take turns to begin. */
static void measure_lines(struct client_bench *self, size_t round, struct samples *samples) {
  for (size_t i = 0; i < 2; i++) {
    bool is_ours = (round + i) % 2 == 0;
    rig_do(self->rig.redis, "DEL sandbox:" JOB ":events");
    double seconds = is_ours ? client_seconds(self) : unread_seconds(self);
    samples_add(samples, LINES_ROW, is_ours ? OURS : CEILING, LINES / seconds);
  }
  rig_do(self->rig.redis, "DEL sandbox:" JOB ":events");
}

static void round_of_both(void *context, size_t round, struct samples *samples) {
  measure_steps(context, samples);
  measure_lines(context, round, samples);
}

static void end(void *context) {
  struct client_bench *self = context;
  agent_process_free(self->agent);
  redisFree(self->results);
  rig_release(&self->rig);
  free(self);
}

static const struct row rows[] = {
    [STEP] = {"sandbox run -- true", "ms", "a bare program with three round trips", RATIO_AT_MOST,
              1.3, 0},
    [LINES_ROW] = {"sandbox run, 1,000,000 lines", "lines/s", "the same step, unread",
                   RATIO_AT_LEAST, 0.8, 0},
};

const struct measurement bench_client = {"client",      rows, ROW_COUNT(rows), ROUNDS, begin,
                                         round_of_both, end};
