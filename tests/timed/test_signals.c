/* How soon the agent leaves after a signal. */

#include <signal.h>

#include "tests/support/job.h"
#include "tests/support/machine_clock.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* IN_TIME_MS is the agent's own limit for what it waits for at its end. */
enum { AT_ONCE_MS = 2000, OBEYED_MS = 3000, IN_TIME_MS = 8000 };

static void expect_exit(struct job *job, int signal_number, int bound_ms) {
  double sent_ms = machine_clock_ms();
  assert_int_equal(kill(agent_process_pid(job->agent), signal_number), 0);
  int code = agent_process_wait(job->agent, WAIT_BOUND_MS);
  double took_ms = machine_clock_ms() - sent_ms;
  if (code != 128 + signal_number && code != -signal_number)
    job_fail(job, "exit code %d, not %d", code, 128 + signal_number);
  print_message("from the signal to the exit: %.0f ms\n", took_ms);
  if (took_ms > bound_ms)
    job_fail(job, "it left after %.0f ms", took_ms);
}

static void make_idle(struct job *job) {
  job_run(job, job_step(job, "true", NULL));
}

static const char *start_stubborn(struct job *job) {
  const char *sleep = job_sleep(job, 600);
  const char *script = job_format(job, "trap '' TERM INT; echo up; setsid %s & %s", sleep, sleep);
  job_push_until(job, job_script(job, script), "up");
  return sleep;
}

JOB_TEST(at_sigterm_an_idle_agent_leaves_at_once) {
  make_idle(job);
  expect_exit(job, SIGTERM, AT_ONCE_MS);
}

JOB_TEST(at_sigint_too) {
  make_idle(job);
  expect_exit(job, SIGINT, AT_ONCE_MS);
}

JOB_TEST(at_sighup_too) {
  make_idle(job);
  expect_exit(job, SIGHUP, AT_ONCE_MS);
}

JOB_TEST(a_step_that_obeys_is_waited_for) {
  job_push_endless(job, job_sleep(job, 600));
  expect_exit(job, SIGTERM, OBEYED_MS);
}

JOB_TEST(a_stubborn_step_is_killed_in_time) {
  const char *sleep = start_stubborn(job);
  expect_exit(job, SIGTERM, IN_TIME_MS);
  assert_int_equal(proc_find(sleep), 0);
}

JOB_TEST(a_second_signal_ends_it_at_once) {
  (void)start_stubborn(job);
  assert_int_equal(kill(agent_process_pid(job->agent), SIGTERM), 0);
  agent_process_wait_log(job->agent, "SIGTERM");
  expect_exit(job, SIGTERM, AT_ONCE_MS);
}

JOB_TEST(a_redis_that_is_gone_is_not_waited_for) {
  const char *sleep = job_sleep(job, 600);
  (void)job_push_endless(job, sleep);
  redis_server_kill(job->server);
  expect_exit(job, SIGTERM, AT_ONCE_MS);
  assert_int_equal(proc_find(sleep), 0);
}

/* Its output has nowhere to go, so that it could not end by itself. */
JOB_TEST(neither_is_a_command_that_waits_for_it) {
  const char *words = job_sleep(job, 600);
  job_push_until(job, job_step(job, "yes", words, NULL), words);
  redis_server_kill(job->server);
  expect_exit(job, SIGTERM, AT_ONCE_MS);
}

JOB_TEST(a_cut_connection_delays_little) {
  job_push_endless(job, job_sleep(job, 600));
  freeReplyObject(redisCommand(job->redis, "CLIENT KILL TYPE normal SKIPME yes"));
  expect_exit(job, SIGTERM, AT_ONCE_MS);
}

JOB_TEST(a_redis_that_does_not_answer_is_not_waited_for_longer) {
  (void)start_stubborn(job);
  redis_server_freeze(job->server);
  expect_exit(job, SIGTERM, IN_TIME_MS);
}

JOB_TEST_NO_AGENT(without_a_step_there_is_nothing_to_drain) {
  job_start_agent(job, "--drain-seconds", "60", NULL);
  make_idle(job);
  expect_exit(job, SIGTERM, AT_ONCE_MS);
}

TEST_OVERLAP(2)
