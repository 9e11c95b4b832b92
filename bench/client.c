/*
 * The client: `sandbox run -- true`, from exec to exit, beside a program that does the same in
 * three round trips (programs/order.c); and a run of 1,000,000 lines, and of 1 GB, through a pipe,
 * beside the same step while nobody reads its events.
 */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/piped.h"
#include "bench/rig.h"
#include "tests/test.h"

#define JOB "client"
#define ROUNDS 5
#define STEPS 100
#define WARM_UP 5
#define LINES 1000000
#define LINE_SIZE 61 /* of programs/lines */
#define BYTES 1000000000

enum { STEP, TEXT, RAW };

/* A step with much output. */
struct flood {
  const char *form;    /* an option of the client */
  const char *program; /* of bench/programs, with its argument */
  const char *argument;
  const char *field; /* of the step that is not read */
  long long bytes;
  double amount; /* in the unit of the row */
};

static const struct flood floods[] = {
    [TEXT] = {"--text", "lines", "1000000", "", (long long)LINES *LINE_SIZE, LINES},
    [RAW] = {"--raw", "endless", "1000000000", ",\"raw\":true", BYTES, BYTES / 1e6},
};

struct client_bench {
  struct rig rig;
  struct agent_process *agent;
  redisContext *results;
  char client[PATH_MAX], order[PATH_MAX];
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

static void *begin(void) {
  struct client_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  rig_init(&self->rig);
  self->results = rig_connect(&self->rig);
  find_client(self->client);
  rig_program(self->order, "order");
  (void)snprintf(self->port, sizeof self->port, "%d", redis_server_port(self->rig.server));
  self->agent = rig_start_agent(&self->rig, JOB, NULL);
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

/* Reads a pipe to its end, without the costs of copying. Returns how many bytes it had. */
static long long drain(int pipe) {
  int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  long long bytes = 0;
  ssize_t n;
  while ((n = splice(pipe, NULL, null, NULL, 1 << 20, 0)) > 0)
    bytes += n;
  assert_int_equal(n, 0);
  close(null);
  return bytes;
}

/* The seconds until the client has exited, and all of its output has been read. */
static double client_seconds(const struct client_bench *self, const struct flood *flood) {
  char program[PATH_MAX];
  int code;
  rig_program(program, flood->program);
  double begin_ms = latency_now_ms();
  struct piped client =
      piped_start((const char *[]){self->client, "--redis-url", self->rig.endpoint.url, "--job",
                                   JOB, "run", flood->form, "--", program, flood->argument, NULL});
  assert_true(drain(client.out) == flood->bytes);
  assert_int_equal(waitpid(client.pid, &code, 0), client.pid);
  double seconds = (latency_now_ms() - begin_ms) / 1e3;
  close(client.in);
  close(client.out);
  assert_int_equal(code, 0);
  return seconds;
}

static double unread_seconds(struct client_bench *self, const struct flood *flood) {
  char program[PATH_MAX], step[RIG_STEP_SIZE], arguments[32];
  rig_program(program, flood->program);
  (void)snprintf(arguments, sizeof arguments, "\"%s\"", flood->argument);
  rig_step(step, ++self->steps, program, arguments);
  step[strlen(step) - 1] = '\0';
  (void)snprintf(step + strlen(step), sizeof step - strlen(step), "%s}", flood->field);
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
static void measure_flood(struct client_bench *self, size_t round, size_t row,
                          struct samples *samples) {
  for (size_t i = 0; i < 2; i++) {
    bool is_ours = (round + i) % 2 == 0;
    rig_do(self->rig.redis, "DEL sandbox:" JOB ":events");
    double seconds =
        is_ours ? client_seconds(self, &floods[row]) : unread_seconds(self, &floods[row]);
    samples_add(samples, row, is_ours ? OURS : CEILING, floods[row].amount / seconds);
  }
  rig_do(self->rig.redis, "DEL sandbox:" JOB ":events");
}

static void round_of_all(void *context, size_t round, struct samples *samples) {
  measure_steps(context, samples);
  measure_flood(context, round, TEXT, samples);
  measure_flood(context, round, RAW, samples);
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
    [TEXT] = {"sandbox run --text, 1,000,000 lines", "lines/s", "the same step, unread",
              RATIO_AT_LEAST, 0.8, 0},
    [RAW] = {"sandbox run --raw, 1 GB", "MB/s", "the same step, unread", RATIO_AT_LEAST, 0.8, 0},
};

const struct measurement bench_client = {"client",     rows, ROW_COUNT(rows), ROUNDS, begin,
                                         round_of_all, end};
