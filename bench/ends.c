/*
 * How long it takes until every process of a step is dead. Each of them has a FIFO open, which has
 * no writer then. A cancel sends SIGTERM first; the death of an agent kills at once.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/piped.h"
#include "bench/rig.h"
#include "tests/test.h"

#define ROUNDS 5
#define STARTS 50
#define TREES 16
#define ENDS 10

/* Within this, in milliseconds, all processes have started, or are dead. */
#define BOUND_MS 20000

enum { ONCE, CANCELLED, RESTLESS, BOMB };

struct ends_bench {
  char nothing[PATH_MAX], tree[PATH_MAX], fifo[PATH_MAX + 32];
};

static double spawn_ms(const struct ends_bench *self) {
  const char *const arguments[] = {self->nothing, "-", NULL};
  double begin_ms = latency_now_ms();
  rig_spawn(arguments);
  return latency_now_ms() - begin_ms;
}

/* Without waiting for a writer. */
static int open_fifo(const struct ends_bench *self) {
  int fifo = open(self->fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  assert_true(fifo >= 0);
  return fifo;
}

static void await_bytes(int fifo, size_t count) {
  char bytes[256];
  const double end_ms = latency_now_ms() + BOUND_MS;
  while (count > 0) {
    struct pollfd readable = {.fd = fifo, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, BOUND_MS), 1);
    ssize_t length = read(fifo, bytes, count < sizeof bytes ? count : sizeof bytes);
    if (length > 0)
      count -= (size_t)length;
    else if (latency_now_ms() > end_ms)
      fail_msg("%zu processes did not start", count);
  }
}

static void await_no_writer(int fifo) {
  struct pollfd hung_up = {.fd = fifo};
  assert_int_equal(poll(&hung_up, 1, BOUND_MS), 1);
  close(fifo);
}

static struct piped start_calls(const struct ends_bench *self, int count, const char *shape) {
  const char *const arguments[] = {agent_process_program(), "--mcp", NULL};
  struct piped agent = piped_start(arguments);
  for (int i = 0; i < count; i++) {
    char line[3 * PATH_MAX];
    (void)snprintf(
        line, sizeof line,
        "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":"
        "\"execute_command\",\"arguments\":{\"command\":\"%s\",\"args\":[\"%s\",\"%s\"]}}}\n",
        i, self->tree, shape, self->fifo);
    piped_send(&agent, line);
  }
  return agent;
}

static double cancel_ms(const struct ends_bench *self) {
  char cancels[TREES * 128] = "";
  size_t length = 0;
  int fifo = open_fifo(self);
  struct piped agent = start_calls(self, TREES, "six");
  await_bytes(fifo, (size_t)TREES * 6);
  for (int i = 0; i < TREES; i++)
    length += (size_t)snprintf(cancels + length, sizeof cancels - length,
                               "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                               "\"params\":{\"requestId\":%d}}\n",
                               i);
  double begin_ms = latency_now_ms();
  piped_send(&agent, cancels);
  await_no_writer(fifo);
  double ms = latency_now_ms() - begin_ms;
  piped_end(&agent);
  return ms;
}

static double death_ms(const struct ends_bench *self, const char *shape, size_t processes) {
  int fifo = open_fifo(self);
  struct piped agent = start_calls(self, 1, shape);
  await_bytes(fifo, processes);
  double begin_ms = latency_now_ms();
  assert_int_equal(kill(agent.pid, SIGKILL), 0);
  await_no_writer(fifo);
  double ms = latency_now_ms() - begin_ms;
  piped_end(&agent);
  return ms;
}

static void *begin(void) {
  struct ends_bench *self = calloc(1, sizeof *self);
  const char *temporary = getenv("TMPDIR");
  assert_non_null(self);
  (void)signal(SIGPIPE, SIG_IGN);
  rig_program(self->nothing, "true");
  rig_program(self->tree, "tree");
  (void)snprintf(self->fifo, sizeof self->fifo, "%s/ends-%p",
                 temporary != NULL ? temporary : "/tmp", (void *)self);
  assert_int_equal(mkfifo(self->fifo, 0600), 0);
  (void)piped_once_ms(self->nothing);
  (void)cancel_ms(self);
  return self;
}

static void round_of_all(void *context, size_t round, struct samples *samples) {
  (void)round;
  const struct ends_bench *self = context;
  double once[STARTS], spawn[STARTS], cancelled[ENDS], restless[ENDS], bomb[ENDS];
  for (int i = 0; i < STARTS; i++) {
    once[i] = piped_once_ms(self->nothing);
    spawn[i] = spawn_ms(self);
  }
  for (int i = 0; i < ENDS; i++) {
    cancelled[i] = cancel_ms(self);
    restless[i] = death_ms(self, "restless", 1);
    bomb[i] = death_ms(self, "bomb", 128);
  }
  samples_add(samples, ONCE, OURS, latency_quantile(once, STARTS, 0.5));
  samples_add(samples, ONCE, CEILING, latency_quantile(spawn, STARTS, 0.5));
  samples_add(samples, CANCELLED, OURS, latency_quantile(cancelled, ENDS, 0.5));
  samples_add(samples, RESTLESS, OURS, latency_quantile(restless, ENDS, 0.5));
  samples_add(samples, BOMB, OURS, latency_quantile(bomb, ENDS, 0.5));
}

static void end(void *context) {
  struct ends_bench *self = context;
  (void)unlink(self->fifo);
  free(self);
}

static const struct row rows[] = {
    [ONCE] = {"agent --once, p50", "ms", "a spawn of the command", OURS_AT_MOST, 4, 0},
    [CANCELLED] = {"16 trees of six cancelled, p50", "ms", NULL, OURS_AT_MOST, 10, 0},
    [RESTLESS] = {"a restless forker's end, p50", "ms", NULL, OURS_AT_MOST, 5, 0},
    [BOMB] = {"a bomb of 128's end, p50", "ms", NULL, OURS_AT_MOST, 20, 0},
};

const struct measurement bench_ends = {"ends",       rows, ROW_COUNT(rows), ROUNDS, begin,
                                       round_of_all, end};
