/* Redis does not come back: what nobody will ever read there is in the log, whole. And it does come
   back: then it gets what it is due, however late that is. */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/events.h"
#include "tests/support/job.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define UNDELIVERED "undelivered result: "

enum { OUTPUT = 1000000 };

/* Prints as much as a result holds, and ends, behind the gate. */
static cJSON *large_step(struct job *job, const char *gate) {
  return job_script(job, job_format(job,
                                    "until [ -e %s ]; do sleep 0.01; done; "
                                    "yes 123456789 | head -n 100000; echo last >&2; exit 7",
                                    gate));
}

static void open_gate(const char *gate) {
  FILE *file = fopen(gate, "we");
  assert_non_null(file);
  fclose(file);
}

/* The log has one undelivered result, which is this step's and whole. */
static void expect_whole(struct job *job, const char *log, const cJSON *step) {
  const char *found = strstr(log, UNDELIVERED);
  if (found == NULL)
    job_fail(job, "no undelivered result in the log");
  found += strlen(UNDELIVERED);
  assert_null(strstr(found, UNDELIVERED));
  const char *end = strchr(found, '\n');
  assert_non_null(end);
  cJSON *result = job_own(job, cJSON_ParseWithLength(found, (size_t)(end - found)));
  assert_string_equal(job_text(result, "stepId"), job_text(step, "stepId"));
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 7);
  const char *output = job_text(result, "outputContent");
  assert_int_equal(strlen(output), OUTPUT);
  assert_string_equal(output + OUTPUT - 20, "123456789\n123456789\n");
  job_expect_part(job, result, "errorMessage", "\nlast");
  assert_int_equal(job_event_count(result), 1 + OUTPUT / 10 + 1 + 1);
}

JOB_TEST_NO_AGENT(at_a_signal_it_is_in_the_log) {
  job_start_agent(job, "--hold-bytes", "100000000", NULL);
  const char *gate = job_path(job, "gate");
  const cJSON *step = large_step(job, gate);
  job_push(job, step);
  events_wait(job, step, "started", "sh");
  redis_server_kill(job->server);
  open_gate(gate);
  agent_process_wait_log(job->agent, "exit=7");
  assert_int_equal(kill(agent_process_pid(job->agent), SIGTERM), 0);
  job_expect_exit(job, 128 + SIGTERM);
  expect_whole(job, agent_process_log(job->agent), step);
}

static void write_to_pipe(const void *context) {
  dup2(*(const int *)context, STDERR_FILENO);
}

/* One page of the pipe at a time, and a pause after each. */
static char *read_slowly(int fd, struct agent_process *agent) {
  const struct timespec pause = {.tv_nsec = 2000000};
  size_t length = 0, size = (size_t)4 << 20;
  char *text = malloc(size);
  assert_non_null(text);
  int64_t end = wait_now_ms() + WAIT_BOUND_MS;
  for (;;) {
    ssize_t n = read(fd, text + length, 4096);
    if (n == 0)
      break;
    if (n > 0)
      length += (size_t)n;
    else if (!agent_process_is_running(agent) && poll(&(struct pollfd){fd, POLLIN, 0}, 1, 0) == 0)
      break;
    assert_true(length + 4096 < size && wait_now_ms() < end);
    nanosleep(&pause, NULL);
  }
  text[length] = '\0';
  return text;
}

JOB_TEST_NO_AGENT(a_slow_reader_of_the_log_gets_it_whole) {
  int ends[2];
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  const char *const arguments[] = {"--redis-url",  job->url,    "--job-id", job->id,
                                   "--hold-bytes", "100000000", NULL};
  job->agent = agent_process_start(&(struct agent_setup){.arguments = arguments,
                                                         .prepare = write_to_pipe,
                                                         .prepare_context = &ends[1],
                                                         .inherited_fd = ends[1]});
  close(ends[1]);
  const char *gate = job_path(job, "gate");
  const cJSON *step = large_step(job, gate);
  job_push(job, step);
  events_wait(job, step, "started", "sh");
  redis_server_kill(job->server);
  open_gate(gate);
  assert_true(proc_wait_gone(job_format(job, "yes 123456789"), WAIT_BOUND_MS));
  char exit_line[4096];
  ssize_t n = 0;
  size_t length = 0;
  int64_t end = wait_now_ms() + WAIT_BOUND_MS;
  do { /* the lines before the last ones */
    assert_true(wait_now_ms() < end && length < sizeof exit_line - 1);
    poll(&(struct pollfd){ends[0], POLLIN, 0}, 1, 100);
    n = read(ends[0], exit_line + length, sizeof exit_line - 1 - length);
    length += n > 0 ? (size_t)n : 0;
    exit_line[length] = '\0';
  } while (strstr(exit_line, "exit=7") == NULL);
  assert_int_equal(kill(agent_process_pid(job->agent), SIGTERM), 0);
  char *log = job_own_text(job, read_slowly(ends[0], job->agent));
  close(ends[0]);
  job_expect_exit(job, 128 + SIGTERM);
  expect_whole(job, log, step);
}

/* The one that runs is answered there, in Redis' place. */
JOB_TEST(what_is_cancelled_is_in_the_log_too) {
  const cJSON *step = job_script(job, job_format(job, "echo up; exec %s", job_sleep(job, 600)));
  job_push(job, step);
  events_wait(job, step, "stdout", "up");
  redis_server_kill(job->server);
  agent_process_wait_log(job->agent, " lost: ");
  assert_int_equal(kill(agent_process_pid(job->agent), SIGTERM), 0);
  agent_process_wait_log(job->agent, "stopping: SIGTERM");
  job_expect_exit(job, 128 + SIGTERM);
  const char *found = strstr(agent_process_log(job->agent), UNDELIVERED);
  if (found == NULL)
    job_fail(job, "no undelivered result in the log");
  assert_non_null(strstr(found, "cancelled: the agent was stopped by SIGTERM"));
}

/* The tree ends after Redis is there again: nothing is missing. */
JOB_TEST(a_redis_that_comes_back_before_the_tree_ends_hears_it) {
  const char *gate = job_path(job, "gate");
  const cJSON *step = job_script(
      job, job_format(job,
                      "trap 'until [ -e %s ]; do sleep 0.01; done; echo bye; exit' TERM; "
                      "echo up; while :; do sleep 0.01; done",
                      gate));
  job_push(job, step);
  events_wait(job, step, "stdout", "up");
  redis_server_kill(job->server);
  agent_process_wait_log(job->agent, " lost: ");
  assert_int_equal(kill(agent_process_pid(job->agent), SIGTERM), 0);
  agent_process_wait_log(job->agent, "stopping: SIGTERM");
  redis_server_restart(job->server);
  redisFree(job->redis);
  job->redis = redis_server_connect(job->server);
  agent_process_wait_log(job->agent, "outbox: connected to");
  open_gate(gate);
  job_expect_exit(job, 128 + SIGTERM);
  job_expect_answer(job, step, -1, "cancelled: the agent was stopped by SIGTERM", "up\nbye\n");
  assert_null(strstr(agent_process_log(job->agent), UNDELIVERED));
  assert_string_equal(events_lines(job, step, "completed"), "exit=-1 timedOut=False\n");
  job_expect_keys(job, "committed", "events", NULL);
}
