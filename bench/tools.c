/*
 * The frontends without Redis. A call of the Model Context Protocol, beside the same step by `agent
 * --once`. A request file, from its rename until its result has its name, beside a script that does
 * the same with bash and jq (tests/support/executor.sh). Each command does nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/piped.h"
#include "bench/rig.h"
#include "tests/test.h"

#define ROUNDS 5
#define CALLS 100
#define REQUESTS 50
#define SCRIPT_REQUESTS 10
#define WARM_UP 5

/* Each answer comes within this, in milliseconds. The script looks every 200 ms. */
#define ANSWER_MS 10000

enum { CALL, REQUEST };

/* One side of the second row: a program that serves a directory of request files. */
struct executor {
  pid_t pid;
  char directory[PATH_MAX]; /* has the directory `tools` */
  int results;              /* inotify, of `tools` */
  unsigned long requests;
};

struct tools_bench {
  char command[PATH_MAX];
  struct piped server;
  struct executor ours, script;
  unsigned long calls;
};

static double call_ms(struct tools_bench *self) {
  char line[PATH_MAX + 256], expected[64];
  (void)snprintf(line, sizeof line,
                 "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"method\":\"tools/call\",\"params\":{\"name\":"
                 "\"execute_command\",\"arguments\":{\"command\":\"%s\",\"args\":[\"-\"]}}}\n",
                 ++self->calls, self->command);
  (void)snprintf(expected, sizeof expected, "\"id\":%lu,\"result\"", self->calls);
  double begin_ms = latency_now_ms();
  piped_send(&self->server, line);
  piped_expect(&self->server, expected);
  return latency_now_ms() - begin_ms;
}

static void write_request(const struct executor *self, const char *name, const char *command) {
  char hidden[PATH_MAX + 128], path[PATH_MAX + 128];
  (void)snprintf(hidden, sizeof hidden, "%s/tools/.request", self->directory);
  (void)snprintf(path, sizeof path, "%s/tools/exec-request-%s.json", self->directory, name);
  FILE *file = fopen(hidden, "we");
  assert_non_null(file);
  (void)fprintf(file, "{\"id\":\"%s\",\"command\":\"%s\",\"workDir\":\"/\",\"timeout\":30}", name,
                command);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(rename(hidden, path), 0);
}

/* Waits until a file has got this name. */
static void await_result(const struct executor *self, const char *name) {
  char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
  for (;;) {
    struct pollfd readable = {.fd = self->results, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, ANSWER_MS), 1);
    ssize_t length = read(self->results, buffer, sizeof buffer);
    assert_true(length > 0);
    for (const char *at = buffer; at < buffer + length;) {
      const struct inotify_event *event = (const void *)at;
      if (strcmp(event->name, name) == 0)
        return;
      at += sizeof *event + event->len;
    }
  }
}

static double request_ms(struct executor *self, const char *command) {
  char name[32], result[64], path[PATH_MAX + 128];
  (void)snprintf(name, sizeof name, "%lu", 1000 + ++self->requests);
  (void)snprintf(result, sizeof result, "exec-result-%s.json", name);
  double begin_ms = latency_now_ms();
  write_request(self, name, command);
  await_result(self, result);
  double ms = latency_now_ms() - begin_ms;
  (void)snprintf(path, sizeof path, "%s/tools/exec-request-%s.json", self->directory, name);
  assert_int_equal(unlink(path), 0);
  (void)snprintf(path, sizeof path, "%s/tools/%s", self->directory, result);
  assert_int_equal(unlink(path), 0);
  return ms;
}

/* Each has a directory of its own, because there are two of each if two builds are compared. */
static void make_directory(struct executor *self) {
  char tools[PATH_MAX + 8];
  const char *temporary = getenv("TMPDIR");
  (void)snprintf(self->directory, sizeof self->directory, "%s/tools-XXXXXX",
                 temporary != NULL ? temporary : "/tmp");
  assert_non_null(mkdtemp(self->directory));
  (void)snprintf(tools, sizeof tools, "%s/tools", self->directory);
  assert_int_equal(mkdir(tools, 0755), 0);
  self->results = inotify_init1(IN_CLOEXEC);
  assert_true(self->results >= 0 && inotify_add_watch(self->results, tools, IN_MOVED_TO) >= 0);
}

static void start_executors(struct tools_bench *self) {
  char flag[PATH_MAX + 8], tools[PATH_MAX + 8];
  make_directory(&self->ours);
  make_directory(&self->script);
  (void)snprintf(flag, sizeof flag, "--ipc=%s", self->ours.directory);
  (void)snprintf(tools, sizeof tools, "%s/tools", self->script.directory);
  int quiet = open("/dev/null", O_RDWR | O_CLOEXEC);
  const char *const ours[] = {agent_process_program(), flag, NULL};
  const char *const script[] = {"/bin/bash", "tests/support/executor.sh", tools, NULL};
  self->ours.pid = piped_fork(quiet, quiet, quiet, ours);
  self->script.pid = piped_fork(quiet, quiet, quiet, script);
  close(quiet);
}

static void *begin(void) {
  struct tools_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  const char *const server[] = {agent_process_program(), "--mcp", NULL};
  (void)signal(SIGPIPE, SIG_IGN);
  rig_program(self->command, "true");
  self->server = piped_start(server);
  start_executors(self);
  for (int i = 0; i < WARM_UP; i++) {
    (void)call_ms(self);
    (void)piped_once_ms(self->command);
    (void)request_ms(&self->ours, self->command);
    (void)request_ms(&self->script, self->command);
  }
  return self;
}

static void round_of_both(void *context, size_t round, struct samples *samples) {
  (void)round;
  struct tools_bench *self = context;
  double calls[CALLS], once[CALLS], ours[REQUESTS], script[SCRIPT_REQUESTS];
  for (int i = 0; i < CALLS; i++) {
    calls[i] = call_ms(self);
    once[i] = piped_once_ms(self->command);
  }
  for (int i = 0; i < REQUESTS; i++) {
    ours[i] = request_ms(&self->ours, self->command);
    if (i < SCRIPT_REQUESTS)
      script[i] = request_ms(&self->script, self->command);
  }
  samples_add(samples, CALL, OURS, latency_quantile(calls, CALLS, 0.5));
  samples_add(samples, CALL, CEILING, latency_quantile(once, CALLS, 0.5));
  samples_add(samples, REQUEST, OURS, latency_quantile(ours, REQUESTS, 0.5));
  samples_add(samples, REQUEST, CEILING, latency_quantile(script, SCRIPT_REQUESTS, 0.5));
}

static void end(void *context) {
  struct tools_bench *self = context;
  piped_end(&self->server);
  piped_kill(self->ours.pid);
  piped_kill(self->script.pid);
  close(self->ours.results);
  close(self->script.results);
  free(self);
}

static const struct row rows[] = {
    [CALL] = {"one tools/call, p50", "ms", "the same step by agent --once", RATIO_AT_MOST, 1.3, 0},
    [REQUEST] = {"one request file, p50", "ms", "a script of bash and jq", OURS_AT_MOST, 5, 0},
};

const struct measurement bench_tools = {"tools",       rows, ROW_COUNT(rows), ROUNDS, begin,
                                        round_of_both, end};
