/* Two agents for one job: the newer one takes it over, the older one exits and changes nothing. */

#include "tests/support/job.h"
#include "tests/support/marks.h"

#define INTERRUPTED "interrupted: the agent ended while this step was running"
#define TAKEN_OVER "another agent has taken over this job"

static void expect_superseded(struct agent_process *first) {
  int code = agent_process_wait(first, WAIT_BOUND_MS);
  if (code != 3)
    agent_process_fail(first, "exit code %d, not 3", code);
  if (strstr(agent_process_log(first), TAKEN_OVER) == NULL)
    agent_process_fail(first, "the log does not name the other agent");
  agent_process_free(first);
}

JOB_TEST(a_running_step_is_killed_and_answered_by_the_new_agent) {
  const char *sleep = job_sleep(job, 600);
  const cJSON *running = job_script(job, job_format(job, "echo up; exec %s", sleep));
  job_push_until(job, running, "up");
  const cJSON *waiting = job_push_echo(job, "waiting");
  job_wait_length(job, "inflight", 2);
  struct agent_process *first = job_start_second_agent(job);
  const cJSON *result = job_expect_answer(job, running, -1, INTERRUPTED, NULL);
  assert_int_equal(job_event_count(result), 2);
  job_expect_answer(job, waiting, 0, NULL, "waiting\n");
  expect_superseded(first);
  assert_int_equal(proc_find(sleep), 0);
  assert_int_equal(cJSON_GetArraySize(job_events(job, running)), 2);
  assert_int_equal(cJSON_GetArraySize(job_events(job, waiting)), 3);
  job_expect_nothing_left(job);
}

/* The step prints endlessly, so that the older agent always has output in flight. */
JOB_TEST(no_event_arrives_after_the_takeover) {
  const cJSON *step = job_step(job, "yes", job->id, NULL);
  job_push_until(job, step, job->id);
  struct agent_process *first = job_start_second_agent(job);
  const cJSON *result = job_expect_answer(job, step, -1, INTERRUPTED, NULL);
  expect_superseded(first);
  /* The stream is trimmed: compares the last event. */
  redisReply *last = job_ask(job, "XREVRANGE sandbox:%s:events + - COUNT 1", job->id);
  const char *seq = job_json(job, "'seq':%d}", job_event_count(result));
  if (strstr(last->element[0]->element[1]->element[1]->str, seq) == NULL)
    job_fail(job, "the last event is not %s", seq);
  freeReplyObject(last);
  assert_int_equal(proc_find(job_format(job, "yes %s", job->id)), 0);
  job_expect_nothing_left(job);
}

/* The older agent was stopped meanwhile, and has a result to deliver when it continues. */
JOB_TEST(a_stopped_agent_delivers_nothing_after_the_takeover) {
  const cJSON *step = job_push_until(job, marks_step(job, "echo up; gate; echo down"), "up");
  assert_int_equal(kill(agent_process_pid(job->agent), SIGSTOP), 0);
  marks_open_gate(job, "");
  struct agent_process *first = job_start_second_agent(job);
  job_expect_answer(job, step, -1, INTERRUPTED, NULL);
  const cJSON *events = job_events(job, step);
  assert_int_equal(kill(agent_process_pid(first), SIGCONT), 0);
  expect_superseded(first);
  assert_int_equal(cJSON_GetArraySize(job_events(job, step)), cJSON_GetArraySize(events));
  job_expect_nothing_left(job);
}

/* The older agent takes the shutdown, and only then notices the takeover. */
JOB_TEST(a_superseded_agent_does_not_wait_at_a_shutdown) {
  job_run(job, job_step(job, "true", NULL));
  assert_true(wait_until(job_agent_waits, job, WAIT_BOUND_MS));
  assert_int_equal(kill(agent_process_pid(job->agent), SIGSTOP), 0);
  job_push_shutdown(job);
  job_wait_length(job, "inflight", 1);
  struct agent_process *first = job->agent;
  job->agent = NULL;
  job_do(job, "SET sandbox:%s:committed 7:0000000000000007:1", job->id);
  assert_int_equal(kill(agent_process_pid(first), SIGCONT), 0);
  expect_superseded(first);
}

JOB_TEST_NO_AGENT(a_superseded_agent_keeps_the_exit_code_of_its_signal) {
  job_start_agent(job, "--drain-seconds", "60", NULL);
  const char *sleep = job_sleep(job, 600);
  const cJSON *step = job_push_endless(job, sleep);
  assert_int_equal(kill(agent_process_pid(job->agent), SIGTERM), 0);
  agent_process_wait_log(job->agent, "draining: the running step has ");
  struct agent_process *first = job_start_second_agent(job);
  job_expect_answer(job, step, -1, INTERRUPTED, NULL);
  int code = agent_process_wait(first, WAIT_BOUND_MS);
  if (code != 128 + SIGTERM)
    agent_process_fail(first, "exit code %d, not 143", code);
  agent_process_free(first);
  assert_int_equal(proc_find(sleep), 0);
}

JOB_TEST(steps_are_answered_once_while_two_agents_run) {
  enum { STEPS = 30, AT = 10 };
  struct agent_process *first = NULL;
  for (int i = 0; i < STEPS; i++) {
    if (i == AT)
      first = job_start_second_agent(job);
    (void)job_result_of(job, job_push_echo(job, "on"));
    assert_int_equal(job_length(job, "results"), 0);
  }
  expect_superseded(first);
  job_expect_nothing_left(job);
}
