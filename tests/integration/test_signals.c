/* SIGTERM and SIGINT: the running process tree ends, its result is delivered, and the agent exits.
   tests/timed checks how soon. */

#include <sys/syscall.h>

#include "tests/support/job.h"

static void send_signal(struct job *job, int signal_number) {
  assert_int_equal(kill(agent_process_pid(job->agent), signal_number), 0);
}

/* The agent got this signal and must exit. */
static void expect_exit(struct job *job, int signal_number) {
  int actual = agent_process_wait(job->agent, WAIT_BOUND_MS);
  if (actual != 128 + signal_number)
    job_fail(job, "exit code %d, not %d", actual, 128 + signal_number);
}

static void stop(struct job *job, int signal_number) {
  send_signal(job, signal_number);
  expect_exit(job, signal_number);
}

static void expect_cancelled(struct job *job, const cJSON *step, const char *signal_name,
                             const char *output) {
  const char *message = job_format(job, "cancelled: the agent was stopped by %s", signal_name);
  job_expect_answer(job, step, -1, message, output);
  assert_string_equal(job_lines(job, step, "completed"), "exit=-1 timedOut=False\n");
}

/* The C libraries use 32 to 34 for threads. */
JOB_TEST(the_agent_ignores_other_signals) {
  static const int others[] = {SIGUSR2, SIGALRM, SIGPIPE, SIGTSTP, SIGXCPU, 32, 33, 34, 35, 64};
  assert_true(wait_until(job_agent_waits, job, WAIT_BOUND_MS));
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_int_equal(syscall(SYS_kill, agent_process_pid(job->agent), others[i]), 0);
  job_expect_to_go_on(job);
}

JOB_TEST(a_signal_cancels_the_running_step) {
  job->schema_version = 2;
  const char *sleep = job_sleep(job, 600);
  const cJSON *step = job_push_endless(job, sleep);
  stop(job, SIGTERM);
  expect_cancelled(job, step, "SIGTERM", "up\n");
  assert_int_equal(proc_find(sleep), 0);
}

JOB_TEST(a_step_that_ignores_sigint_is_killed) {
  const char *sleep = job_sleep(job, 600);
  const char *script = job_format(job, "trap '' TERM INT; echo up; setsid %s & %s", sleep, sleep);
  const cJSON *step = job_push_until(job, job_script(job, script), "up");
  stop(job, SIGINT);
  expect_cancelled(job, step, "SIGINT", "up\n");
  assert_int_equal(proc_find(sleep), 0);
}

JOB_TEST(output_after_the_signal_is_delivered) {
  const cJSON *step = job_script(job, "trap 'echo bye; exit 0' TERM; echo up; sleep 600 & wait");
  job_push_until(job, step, "up");
  stop(job, SIGTERM);
  assert_string_equal(job_lines(job, step, "stdout"), "up\nbye\n");
  expect_cancelled(job, step, "SIGTERM", "up\nbye\n");
}

JOB_TEST(a_stopped_agent_takes_no_more_steps) {
  const cJSON *step = job_push_endless(job, job_sleep(job, 600));
  job_push(job, job_step(job, "echo", "never", NULL));
  stop(job, SIGTERM);
  expect_cancelled(job, step, "SIGTERM", "up\n");
  /* The step stays for the next agent. */
  assert_int_equal(job_length(job, "in") + job_length(job, "inflight"), 1);
  assert_int_equal(job_length(job, "results"), 0);
}

JOB_TEST(a_signal_ends_background_processes) {
  const char *sleep = job_sleep(job, 600);
  job_run(job, job_script(job, job_format(job, "setsid %s >/dev/null 2>&1 &", sleep)));
  assert_int_not_equal(proc_wait_for(sleep, WAIT_BOUND_MS), 0);
  stop(job, SIGTERM);
  assert_true(proc_wait_gone(sleep, WAIT_BOUND_MS));
}

JOB_TEST(the_agent_restores_a_cut_connection_before_it_exits) {
  const char *sleep = job_sleep(job, 600);
  const cJSON *step = job_push_endless(job, sleep);
  freeReplyObject(redisCommand(job->redis, "CLIENT KILL TYPE normal SKIPME yes"));
  stop(job, SIGTERM);
  expect_cancelled(job, step, "SIGTERM", "up\n");
}

JOB_TEST(a_redis_that_answers_late_gets_the_result) {
  const char *sleep = job_sleep(job, 600);
  const cJSON *step = job_push_endless(job, sleep);
  redis_server_freeze(job->server);
  send_signal(job, SIGTERM);
  agent_process_wait_log(job->agent, "exit=-1"); /* the step is over, but not delivered */
  assert_true(agent_process_is_running(job->agent));
  redis_server_thaw(job->server);
  expect_exit(job, SIGTERM);
  expect_cancelled(job, step, "SIGTERM", "up\n");
}

JOB_TEST(the_agent_exits_if_redis_dies_after_a_signal) {
  (void)job_push_endless(job, job_sleep(job, 600));
  redis_server_freeze(job->server);
  send_signal(job, SIGTERM);
  agent_process_wait_log(job->agent, "exit=-1");
  redis_server_kill(job->server);
  expect_exit(job, SIGTERM);
}

/* The agent catches SIGTERM, or blocks it to read it from a descriptor. */
static bool takes_sigterm(void *context) {
  const struct job *job = context;
  char *status = proc_read(agent_process_pid(job->agent), "status", NULL);
  assert_non_null(status);
  unsigned long long taken = 0;
  static const char *const fields[] = {"SigBlk:", "SigCgt:"};
  for (size_t i = 0; i < 2; i++)
    taken |= strtoull(strstr(status, fields[i]) + 7, NULL, 16);
  free(status);
  return (taken >> (SIGTERM - 1) & 1) != 0;
}

JOB_TEST_NO_AGENT(sigterm_ends_the_agent_during_its_first_connection) {
  redis_server_freeze(job->server);
  job_start_agent(job, NULL);
  assert_true(wait_until(takes_sigterm, job, WAIT_BOUND_MS));
  stop(job, SIGTERM);
}

/* --- with --drain-seconds --------------------------------------------------------------------- */

/* The agent runs a step and has another one waiting when it gets SIGTERM. */
static const cJSON *start_draining(struct job *job, const char *seconds, const char *script) {
  job_start_agent(job, "--drain-seconds", seconds, NULL);
  const cJSON *step = job_push_until(job, job_script(job, script), "up");
  (void)job_push_echo(job, "the next agent's");
  send_signal(job, SIGTERM);
  agent_process_wait_log(job->agent, "draining: the running step has ");
  return step;
}

static void expect_next_waits(struct job *job) {
  assert_int_equal(job_length(job, "in") + job_length(job, "inflight"), 1);
  assert_int_equal(job_length(job, "results"), 0);
}

JOB_TEST_NO_AGENT(a_draining_agent_lets_the_running_step_finish) {
  const char *file = job_path(job, "go");
  const cJSON *step = start_draining(
      job, "60", job_format(job, "echo up; until [ -e %s ]; do sleep 0.01; done", file));
  job_write(job, "go", "", 0644);
  job_expect_answer(job, step, 0, NULL, "up\n");
  expect_exit(job, SIGTERM);
  expect_next_waits(job);
}

JOB_TEST_NO_AGENT(a_second_sigterm_cancels_the_draining_step) {
  const cJSON *step = start_draining(job, "60", "echo up; exec sleep 600.241");
  send_signal(job, SIGTERM);
  expect_cancelled(job, step, "SIGTERM", "up\n");
  expect_exit(job, SIGTERM);
  expect_next_waits(job);
}

JOB_TEST_NO_AGENT(the_end_of_the_drain_time_cancels_the_draining_step) {
  const cJSON *step = start_draining(job, "1", "echo up; exec sleep 600.242");
  expect_cancelled(job, step, "SIGTERM", "up\n");
  expect_exit(job, SIGTERM);
  expect_next_waits(job);
}

JOB_TEST_NO_AGENT(a_cancel_ends_the_draining_step) {
  const cJSON *step = start_draining(job, "60", "echo up; exec sleep 600.244");
  job_push_cancel(job, step);
  job_expect_answer(job, step, -1, "cancelled: by a cancel step", "up\n");
  expect_exit(job, SIGTERM);
  expect_next_waits(job);
}

JOB_TEST_NO_AGENT(a_third_sigterm_ends_the_agent_at_once) {
  (void)start_draining(job, "60", "trap '' TERM; echo up; while :; do sleep 600.243; done");
  send_signal(job, SIGTERM);
  agent_process_wait_log(job->agent, "stopping: SIGTERM");
  send_signal(job, SIGTERM);
  expect_exit(job, SIGTERM);
  assert_true(proc_wait_gone("sleep 600.243", WAIT_BOUND_MS));
}

TEST_OVERLAP(3)
