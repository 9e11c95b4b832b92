/* SIGUSR1 writes the agent's state to the log, and the agent continues. */

#include "tests/support/job.h"

/* The log after the signal, until it has all of these parts (up to NULL). */
struct awaited {
  struct job *job;
  size_t before;
  const char *const *parts;
};

static bool has_all(void *context) {
  const struct awaited *awaited = context;
  const char *log = agent_process_log(awaited->job->agent) + awaited->before;
  for (const char *const *part = awaited->parts; *part != NULL; part++)
    if (strcasestr(log, *part) == NULL)
      return false;
  return true;
}

/* Sends the signal again and again, because the awaited state may take a while. */
static void expect_dump(struct job *job, const char *const *parts) {
  int64_t end_ms = wait_now_ms() + WAIT_BOUND_MS;
  do {
    struct awaited awaited = {job, strlen(agent_process_log(job->agent)), parts};
    assert_int_equal(kill(agent_process_pid(job->agent), SIGUSR1), 0);
    if (wait_until(has_all, &awaited, 1000))
      return;
  } while (wait_now_ms() < end_ms);
  job_fail(job, "not all of it is in the log: %s, …", parts[0]);
}

/* Returns the name of the step in a line of the log. */
static const char *in_log(struct job *job, const cJSON *step) {
  return job_format(job, "step=%.8s", job_text(step, "stepId"));
}

JOB_TEST(sigusr1_logs_the_frontend_of_an_idle_agent) {
  job_expect_to_go_on(job);
  for (int i = 0; i < 3; i++)
    expect_dump(job, (const char *const[]){"frontend", "redis", NULL});
  job_expect_to_go_on(job);
  job_shut_down(job);
}

JOB_TEST(sigusr1_logs_a_running_step_with_its_pid) {
  const char *sleep = job_sleep(job, 600);
  const cJSON *step = job_push_endless(job, sleep);
  pid_t pid = proc_wait_for(sleep, WAIT_BOUND_MS);
  expect_dump(job, (const char *const[]){"frontend", "redis", in_log(job, step),
                                         job_format(job, "pid %d", (int)pid), "waits for", NULL});
  job_push_cancel(job, step);
  job_expect_answer(job, step, -1, "cancelled: by a cancel step", "up\n");
  job_expect_to_go_on(job);
}

/* For example, a shell in the container sends the signal and exits before the agent reads it. */
JOB_TEST(the_sender_of_sigusr1_may_have_exited) {
  const cJSON *step = job_push_endless(job, job_sleep(job, 600));
  pid_t agent = agent_process_pid(job->agent);
  assert_int_equal(kill(agent, SIGSTOP), 0);
  pid_t sender = fork();
  if (sender == 0)
    _exit(kill(agent, SIGUSR1));
  assert_int_equal(waitpid(sender, NULL, 0), sender);
  assert_int_equal(kill(agent, SIGCONT), 0);
  agent_process_wait_log(job->agent, "state: frontend redis");
  job_push_cancel(job, step);
  job_expect_answer(job, step, -1, "cancelled: by a cancel step", "up\n");
}

JOB_TEST(sigusr1_logs_output_that_redis_has_not_acknowledged) {
  const cJSON *step = job_step(job, "yes", job->id, NULL);
  job_push_until(job, step, job->id);
  redis_server_freeze(job->server);
  expect_dump(job, (const char *const[]){"frontend", "redis", in_log(job, step),
                                         "waits for capacity", "not acknowledged", NULL});
  assert_true(agent_process_is_running(job->agent));
  redis_server_thaw(job->server);
  job_push_cancel(job, step);
  job_result(job);
  job_expect_to_go_on(job);
}

JOB_TEST_NO_AGENT(sigusr1_works_before_the_first_connection) {
  redis_server_kill(job->server);
  job_start_agent(job, NULL);
  agent_process_wait_log(job->agent, "redis");
  expect_dump(job, (const char *const[]){"frontend", "redis", NULL});
  assert_true(agent_process_is_running(job->agent));
}
