/* A result that nobody will read in Redis is in the log, whole and as the JSON that it is: also of
   a command whose lines still wait for room, of odd bytes, and of many steps; but the agent leaves
   in time, whoever reads its log. */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/events.h"
#include "tests/support/job.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define UNDELIVERED "undelivered result: "

static void open_gate(const char *gate) {
  FILE *file = fopen(gate, "we");
  assert_non_null(file);
  fclose(file);
}

/* The one undelivered result in the log, which must be this step's. */
static const cJSON *undelivered(struct job *job, const cJSON *step) {
  const char *found = strstr(agent_process_log(job->agent), UNDELIVERED);
  if (found == NULL)
    job_fail(job, "no undelivered result in the log");
  found += strlen(UNDELIVERED);
  assert_null(strstr(found, UNDELIVERED));
  const char *end = strchr(found, '\n');
  assert_non_null(end);
  cJSON *result = cJSON_ParseWithLength(found, (size_t)(end - found));
  if (result == NULL)
    job_fail(job, "not JSON: %.*s", (int)(end - found), found);
  job_own(job, result);
  assert_string_equal(job_text(result, "stepId"), job_text(step, "stepId"));
  return result;
}

/* Runs `then` when Redis is gone, and nothing else; returns when its processes are over. */
static const cJSON *run_without_redis(struct job *job, const char *then) {
  const char *gate = job_path(job, "gate");
  const char *script =
      job_format(job, "echo up; until [ -e %s ]; do sleep 0.01; done; %s", gate, then);
  const cJSON *step = job_script(job, script);
  job_push(job, step);
  events_wait(job, step, "stdout", "up");
  pid_t pid = proc_find(job_format(job, "sh -c %s", script));
  assert_true(pid > 0);
  redis_server_kill(job->server);
  open_gate(gate);
  assert_true(proc_wait_reaped(pid, WAIT_BOUND_MS));
  return step;
}

static void stop(struct job *job) {
  assert_int_equal(kill(agent_process_pid(job->agent), SIGTERM), 0);
  job_expect_exit(job, 128 + SIGTERM);
}

/* The hold is full before the last line. */
JOB_TEST_NO_AGENT(of_a_command_whose_lines_wait) {
  enum { LINES = 3000, LINE = 11 };
  job_start_agent(job, "--hold-bytes", "65536", NULL);
  const cJSON *step =
      run_without_redis(job, job_format(job, "yes 0123456789 | head -n %d; exit 7", LINES));
  stop(job);
  const cJSON *result = undelivered(job, step);
  const char *output = job_text(result, "outputContent");
  assert_int_equal(strlen(output), strlen("up\n") + (size_t)LINES * LINE);
  assert_string_equal(output + strlen(output) - LINE, "0123456789\n");
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 7);
  assert_int_equal(job_event_count(result), 1 + 1 + LINES + 1);
}

JOB_TEST(of_odd_bytes) {
  const cJSON *step = run_without_redis(job, "printf 'a\\177\\302\\205\\033\\000z\\n'");
  agent_process_wait_log(job->agent, "exit=0");
  stop(job);
  const cJSON *result = undelivered(job, step);
  const char *log = agent_process_log(job->agent);
  assert_null(strchr(log, '\x7f'));
  assert_null(strstr(log, "\xc2\x85"));
  /* cJSON ends the string at its NUL. */
  assert_string_equal(job_text(result, "outputContent"), "up\na\x7f\xc2\x85\x1b");
}

static void write_to_pipe(const void *context) {
  dup2(*(const int *)context, STDERR_FILENO);
}

static void start_with_log(struct job *job, int ends[2]) {
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  const char *const arguments[] = {"--redis-url", job->url, "--job-id", job->id, NULL};
  job->agent = agent_process_start(&(struct agent_setup){.arguments = arguments,
                                                         .prepare = write_to_pipe,
                                                         .prepare_context = &ends[1],
                                                         .inherited_fd = ends[1]});
}

/* Reads the log until a line holds this. */
static void read_until(int fd, const char *text) {
  char log[32768];
  size_t length = 0;
  int64_t end = wait_now_ms() + WAIT_BOUND_MS;
  do {
    assert_true(wait_now_ms() < end && length < sizeof log - 1);
    poll(&(struct pollfd){fd, POLLIN, 0}, 1, 100);
    ssize_t n = read(fd, log + length, sizeof log - 1 - length);
    length += n > 0 ? (size_t)n : 0;
    log[length] = '\0';
  } while (strstr(log, text) == NULL);
}

/* By a description of its own, so that the agent's end stays as it was. */
static void fill(struct job *job, int fd) {
  char bytes[4096] = {0};
  int again = open(job_format(job, "/proc/self/fd/%d", fd), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  assert_true(again >= 0);
  for (size_t size = sizeof bytes; size > 0; size /= 2)
    while (write(again, bytes, size) > 0)
      continue;
  close(again);
}

/* The time that they may take is for all of them together. */
JOB_TEST_NO_AGENT(of_many_steps_to_nobody) {
  enum { STEPS = 60, STOP_MS = 8000, SLACK_MS = 2000 };
  int ends[2];
  start_with_log(job, ends);
  const char *gate = job_path(job, "gate");
  const cJSON *step =
      job_script(job, job_format(job, "echo up; until [ -e %s ]; do sleep 0.01; done", gate));
  job_push(job, step);
  events_wait(job, step, "stdout", "up");
  for (int i = 1; i <= STEPS; i++) {
    const char *refused = job_format(job, "{\"stepId\":\"odd-%d\"}", i);
    job_push_text(job, refused, strlen(refused));
  }
  job_wait_length(job, "inflight", 1 + STEPS);
  redis_server_kill(job->server);
  open_gate(gate);
  read_until(ends[0], job_format(job, "step=odd-%d ", STEPS));
  fill(job, ends[1]);
  close(ends[1]);
  int64_t began = wait_now_ms();
  stop(job);
  int64_t took = wait_now_ms() - began;
  close(ends[0]);
  if (took > STOP_MS + SLACK_MS)
    job_fail(job, "it left after %lld ms", (long long)took);
}
