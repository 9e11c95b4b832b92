/* How soon the agent exits after a signal. */

#include "tests/support/job.h"
#include "tests/support/machine_clock.h"

/* IN_TIME_MS is the agent's own limit for everything that it waits for at its end. */
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
    job_fail(job, "the agent exited after %.0f ms", took_ms);
}

/* Once a step was answered, the agent has finished its own start. */
static void make_idle(struct job *job) {
  job_run(job, job_step(job, "true", NULL));
}

static const char *start_stubborn(struct job *job) {
  const char *sleep = job_sleep(job, 600);
  const char *script = job_format(job, "trap '' TERM INT; echo up; setsid %s & %s", sleep, sleep);
  job_push_until(job, job_script(job, script), "up");
  return sleep;
}

JOB_TEST_NO_AGENT(an_idle_agent_exits_at_once_after_a_signal) {
  static const int signals[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    job_start_agent(job, NULL);
    make_idle(job);
    expect_exit(job, signals[i], AT_ONCE_MS);
  }
}

JOB_TEST(the_agent_waits_for_a_step_that_obeys) {
  job_push_endless(job, job_sleep(job, 600));
  expect_exit(job, SIGTERM, OBEYED_MS);
}

JOB_TEST(a_step_that_ignores_signals_is_killed_in_time) {
  const char *sleep = start_stubborn(job);
  expect_exit(job, SIGTERM, IN_TIME_MS);
  assert_int_equal(proc_find(sleep), 0);
}

JOB_TEST(a_second_signal_ends_the_agent_at_once) {
  (void)start_stubborn(job);
  assert_int_equal(kill(agent_process_pid(job->agent), SIGTERM), 0);
  agent_process_wait_log(job->agent, "SIGTERM");
  expect_exit(job, SIGTERM, AT_ONCE_MS);
}

JOB_TEST_NO_AGENT(the_agent_does_not_wait_for_a_redis_that_is_gone) {
  const char *sleep = job_sleep(job, 600);
  for (int idle = 0; idle < 2; idle++) {
    job_start_agent(job, NULL);
    if (idle)
      make_idle(job);
    else
      (void)job_push_endless(job, sleep);
    redis_server_kill(job->server);
    expect_exit(job, SIGTERM, AT_ONCE_MS);
    assert_int_equal(proc_find(sleep), 0);
    redis_server_restart(job->server);
    job_reconnect(job);
  }
}

/* The command blocks because its output cannot be sent, so it cannot end by itself. */
JOB_TEST(the_agent_does_not_wait_for_a_command_that_waits_for_redis) {
  const char *words = job_sleep(job, 600);
  job_push_until(job, job_step(job, "yes", words, NULL), words);
  redis_server_kill(job->server);
  expect_exit(job, SIGTERM, AT_ONCE_MS);
  assert_int_equal(proc_find(job_format(job, "yes %s", words)), 0);
}

JOB_TEST(a_cut_connection_delays_the_exit_only_a_little) {
  job_push_endless(job, job_sleep(job, 600));
  freeReplyObject(redisCommand(job->redis, "CLIENT KILL TYPE normal SKIPME yes"));
  expect_exit(job, SIGTERM, AT_ONCE_MS);
}

JOB_TEST(a_redis_that_does_not_answer_does_not_delay_the_exit_beyond_the_limit) {
  const char *sleep = start_stubborn(job);
  redis_server_freeze(job->server);
  expect_exit(job, SIGTERM, IN_TIME_MS);
  assert_int_equal(proc_find(sleep), 0);
}

JOB_TEST_NO_AGENT(an_agent_without_a_step_has_nothing_to_drain) {
  job_start_agent(job, "--drain-seconds", "60", NULL);
  make_idle(job);
  expect_exit(job, SIGTERM, AT_ONCE_MS);
}

TEST_OVERLAP(2)
