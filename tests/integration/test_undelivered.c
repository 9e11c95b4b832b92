/* Undelivered results: if Redis does not come back, the log has each result complete on one line;
   if it comes back late, it gets the result. */

#include <poll.h>

#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/support/proc.h"
#include "tests/support/proxy.h"
#include "tests/test.h"

#define UNDELIVERED "undelivered result: "
#define STOPPED "cancelled: the agent was stopped by SIGTERM"

enum { OUTPUT = 1000000 };

/* Returns the only undelivered result in the log, which must be that of this step. */
static const cJSON *undelivered(struct job *job, const char *log, const cJSON *step) {
  const char *found = strstr(log, UNDELIVERED);
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

/* Kills Redis, runs `then`, and returns when the processes of the step have ended. */
static const cJSON *run_without_redis(struct job *job, const char *then) {
  cJSON *step = marks_step(job, job_format(job, "echo up; gate; %s", then));
  const cJSON *script = cJSON_GetArrayItem(cJSON_GetObjectItem(step, "args"), 1);
  job_push_until(job, step, "up");
  pid_t pid = proc_find(job_format(job, "sh -c %s", script->valuestring));
  assert_true(pid > 0);
  redis_server_kill(job->server);
  marks_open_gate(job, "");
  assert_true(proc_wait_reaped(pid, WAIT_BOUND_MS));
  return step;
}

/* Prints as much as a result can have, after the gate was opened. */
static cJSON *large_step(struct job *job) {
  return marks_step(job, "gate; yes 123456789 | head -n 100000; echo last >&2; exit 7");
}

/* Fails unless the log has one complete undelivered result, that of this step. */
static void expect_whole(struct job *job, const char *log, const cJSON *step) {
  const cJSON *result = undelivered(job, log, step);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 7);
  const char *output = job_text(result, "outputContent");
  assert_int_equal(strlen(output), OUTPUT);
  assert_string_equal(output + OUTPUT - 20, "123456789\n123456789\n");
  job_expect_part(job, result, "errorMessage", "\nlast");
  assert_int_equal(job_event_count(result), 1 + OUTPUT / 10 + 1 + 1);
}

JOB_TEST_NO_AGENT(an_undelivered_result_is_in_the_log_after_a_signal) {
  job_start_agent(job, "--hold-bytes", "100000000", NULL);
  const cJSON *step = large_step(job);
  job_push(job, step);
  job_wait_event(job, step, "started", "sh");
  redis_server_kill(job->server);
  marks_open_gate(job, "");
  agent_process_wait_log(job->agent, "exit=7");
  job_stop_agent(job, SIGTERM);
  expect_whole(job, agent_process_log(job->agent), step);
}

static void write_to_pipe(const void *context) {
  dup2(*(const int *)context, STDERR_FILENO);
}

/* Starts the agent with a pipe as its log. */
static void start_with_log(struct job *job, int ends[2], const char *hold_bytes) {
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  job->setup = (struct agent_setup){
      .prepare = write_to_pipe, .prepare_context = &ends[1], .inherited_fd = ends[1]};
  job_start_agent(job, "--hold-bytes", hold_bytes, NULL);
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

/* Reads half of the pipe at a time, with pauses. A smaller pipe would need more turns of both
   processes than a busy machine has before the agent's time is over. The result is longer. */
enum { PIPE_SIZE = 1024 * 1024 };

static char *read_slowly(int fd, struct agent_process *agent) {
  enum { PIECE = PIPE_SIZE / 2 };
  const struct timespec pause = {.tv_nsec = 100000000};
  size_t length = 0, size = (size_t)4 << 20;
  char *text = malloc(size);
  assert_non_null(text);
  int64_t end = wait_now_ms() + WAIT_BOUND_MS;
  for (;;) {
    ssize_t n = read(fd, text + length, PIECE);
    if (n == 0)
      break;
    if (n > 0)
      length += (size_t)n;
    else if (!agent_process_is_running(agent) && poll(&(struct pollfd){fd, POLLIN, 0}, 1, 0) == 0)
      break;
    assert_true(length + PIECE < size && wait_now_ms() < end);
    nanosleep(&pause, NULL);
  }
  text[length] = '\0';
  return text;
}

JOB_TEST_NO_AGENT(a_slow_reader_of_the_log_gets_the_whole_result) {
  int ends[2];
  start_with_log(job, ends, "100000000");
  close(ends[1]);
  assert_int_equal(fcntl(ends[0], F_SETPIPE_SZ, PIPE_SIZE), PIPE_SIZE);
  const cJSON *step = large_step(job);
  job_push(job, step);
  job_wait_event(job, step, "started", "sh");
  redis_server_kill(job->server);
  marks_open_gate(job, "");
  assert_true(proc_wait_gone(job_format(job, "yes 123456789"), WAIT_BOUND_MS));
  read_until(ends[0], "exit=7"); /* skips earlier lines */
  assert_int_equal(kill(agent_process_pid(job->agent), SIGTERM), 0);
  char *log = job_own_text(job, read_slowly(ends[0], job->agent));
  close(ends[0]);
  job_expect_exit(job, 128 + SIGTERM);
  expect_whole(job, log, step);
}

JOB_TEST(an_undelivered_cancelled_result_is_in_the_log) {
  (void)job_push_endless(job, job_sleep(job, 600));
  redis_server_kill(job->server);
  agent_process_wait_log(job->agent, " lost: ");
  assert_int_equal(kill(agent_process_pid(job->agent), SIGTERM), 0);
  agent_process_wait_log(job->agent, "stopping: SIGTERM");
  job_expect_exit(job, 128 + SIGTERM);
  const char *found = strstr(agent_process_log(job->agent), UNDELIVERED);
  if (found == NULL)
    job_fail(job, "no undelivered result in the log");
  assert_non_null(strstr(found, STOPPED));
}

/* The process tree ends after Redis has come back. */
JOB_TEST(a_redis_that_comes_back_in_time_gets_the_result) {
  const cJSON *step =
      marks_step(job, "trap 'gate; echo bye; exit' TERM; echo up; sleep 600 & wait");
  job_push_until(job, step, "up");
  redis_server_kill(job->server);
  agent_process_wait_log(job->agent, " lost: ");
  assert_int_equal(kill(agent_process_pid(job->agent), SIGTERM), 0);
  agent_process_wait_log(job->agent, "stopping: SIGTERM");
  redis_server_restart(job->server);
  job_reconnect(job);
  agent_process_wait_log(job->agent, "outbox: connected to");
  marks_open_gate(job, "");
  job_expect_exit(job, 128 + SIGTERM);
  job_expect_answer(job, step, -1, STOPPED, "up\nbye\n");
  assert_null(strstr(agent_process_log(job->agent), UNDELIVERED));
  assert_string_equal(job_lines(job, step, "completed"), "exit=-1 timedOut=False\n");
  job_expect_keys(job, "committed", "events", NULL);
}

/* The send queue is full before the last line is read. */
JOB_TEST_NO_AGENT(an_undelivered_result_has_all_output) {
  enum { LINES = 3000, LINE = 11 };
  job_start_agent(job, "--hold-bytes", "65536", NULL);
  const cJSON *step =
      run_without_redis(job, job_format(job, "yes 0123456789 | head -n %d; exit 7", LINES));
  job_stop_agent(job, SIGTERM);
  const cJSON *result = undelivered(job, agent_process_log(job->agent), step);
  const char *output = job_text(result, "outputContent");
  assert_int_equal(strlen(output), strlen("up\n") + (size_t)LINES * LINE);
  assert_string_equal(output + strlen(output) - LINE, "0123456789\n");
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 7);
  assert_int_equal(job_event_count(result), 1 + 1 + LINES + 1);
}

JOB_TEST(the_log_escapes_bytes_of_an_undelivered_result) {
  const cJSON *step = run_without_redis(job, "printf 'a\\177\\302\\205\\033\\000z\\n'");
  agent_process_wait_log(job->agent, "exit=0");
  job_stop_agent(job, SIGTERM);
  const cJSON *result = undelivered(job, agent_process_log(job->agent), step);
  const char *log = agent_process_log(job->agent);
  assert_null(strchr(log, '\x7f'));
  assert_null(strstr(log, "\xc2\x85"));
  /* cJSON ends the text at its NUL. */
  assert_string_equal(job_text(result, "outputContent"), "up\na\x7f\xc2\x85\x1b");
}

/* Fills the pipe through a separate file description, so that the agent's stays blocking. */
static void fill(struct job *job, int fd) {
  char bytes[4096] = {0};
  int again = open(job_format(job, "/proc/self/fd/%d", fd), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  assert_true(again >= 0);
  for (size_t size = sizeof bytes; size > 0; size /= 2)
    while (write(again, bytes, size) > 0)
      continue;
  close(again);
}

/* All results together may take 8 s; 8 s for each would be minutes. */
JOB_TEST_NO_AGENT(many_undelivered_results_do_not_delay_the_exit) {
  enum { STEPS = 60 };
  int ends[2];
  struct proxy *proxy = proxy_start(redis_server_port(job->server), NULL);
  job_use_port(job, proxy_port(proxy));
  start_with_log(job, ends, "4194304");
  job_run(job, job_step(job, "true", NULL));
  job_wait_length(job, "inflight", 0);
  proxy_freeze(proxy, RELAY_OUTBOX);
  for (int i = 1; i <= STEPS; i++) /* each is refused without an answer of Redis */
    job_push_json(job, job_format(job, "{'stepId':'odd-%d'}", i));
  read_until(ends[0], job_format(job, "step=odd-%d ", STEPS));
  fill(job, ends[1]);
  close(ends[1]);
  job_stop_agent(job, SIGTERM);
  close(ends[0]);
  proxy_stop(proxy);
}

TEST_OVERLAP(3)
