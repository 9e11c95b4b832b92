/* A Redis that comes back without what it had acknowledged: empty, or as it was some time before.
 */

#include "tests/support/events.h"
#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define LOST "lost: the step has run, and redis has lost its result"
#define ROLLED_BACK "redis has lost what it had acknowledged"

/* Leaves a line in `ran` each time it runs, and ends when the gate is there. */
static cJSON *gated_step(struct job *job, const char *ran, const char *gate) {
  return job_script(
      job, job_format(job, "echo >>%s; echo up; until [ -e %s ]; do sleep 0.01; done; echo down",
                      ran, gate));
}

/* What the next start will find. */
static void take_snapshot(struct job *job) {
  job_do(job, "SAVE");
}

static void restart(struct job *job) {
  redis_server_kill(job->server);
  redis_server_restart(job->server);
  redisFree(job->redis);
  job->redis = redis_server_connect(job->server);
}

static void expect_nothing_left(struct job *job) {
  job_wait_length(job, "inflight", 0);
  job_shut_down(job);
  assert_int_equal(job_length(job, "results"), 0);
  assert_int_equal(job_length(job, "in"), 0);
}

JOB_TEST(an_empty_one_gets_every_answer) {
  const char *ran = job_path(job, "ran");
  const char *gate = job_path(job, "gate");
  const cJSON *running = gated_step(job, ran, gate);
  const cJSON *first = job_step(job, "echo", "first", NULL);
  const cJSON *second = job_step(job, "echo", "second", NULL);
  job_push(job, running);
  events_wait(job, running, "stdout", "up");
  job_push(job, first);
  job_push(job, second);
  job_wait_length(job, "inflight", 3);
  restart(job);
  agent_process_wait_log(job->agent, ROLLED_BACK);
  job_wait_length(job, "inflight", 3); /* for the agent after this one */
  marks_open_gate(gate);
  job_expect_answer(job, running, 0, NULL, "up\ndown\n");
  job_expect_answer(job, first, 0, NULL, "first\n");
  job_expect_answer(job, second, 0, NULL, "second\n");
  assert_int_equal(marks_count(ran), 1);
  expect_nothing_left(job);
}

/* Then the next agent knows as much as if nothing had been lost. */
JOB_TEST(an_empty_one_tells_the_next_agent) {
  const char *ran = job_path(job, "ran");
  const cJSON *running = gated_step(job, ran, job_path(job, "gate"));
  const cJSON *waiting = job_step(job, "echo", "waiting", NULL);
  job_push(job, running);
  events_wait(job, running, "stdout", "up");
  job_push(job, waiting);
  job_wait_length(job, "inflight", 2);
  restart(job);
  job_wait_length(job, "inflight", 2);
  job_kill_agent(job);
  job_start_agent(job, NULL);
  job_expect_answer(job, running, -1, "interrupted: the agent ended while this step was running",
                    NULL);
  job_expect_answer(job, waiting, 0, NULL, "waiting\n");
  assert_int_equal(marks_count(ran), 1);
  expect_nothing_left(job);
}

/* The step lies in `in` again, while it runs. */
JOB_TEST_NO_AGENT(a_step_that_runs_is_not_run_again) {
  const char *ran = job_path(job, "ran");
  const char *gate = job_path(job, "gate");
  const cJSON *step = gated_step(job, ran, gate);
  job_push(job, step);
  take_snapshot(job);
  job_start_agent(job, NULL);
  events_wait(job, step, "stdout", "up");
  restart(job);
  agent_process_wait_log(job->agent, ROLLED_BACK);
  job_wait_length(job, "in", 0); /* was handed out once more */
  marks_open_gate(gate);
  job_expect_answer(job, step, 0, NULL, "up\ndown\n");
  assert_int_equal(marks_count(ran), 1);
  expect_nothing_left(job);
}

/* The step lies in `in` again, and is over: its result is held, and is the only one. */
JOB_TEST_NO_AGENT(a_step_that_ended_meanwhile_is_answered_once) {
  const char *ran = job_path(job, "ran");
  const char *gate = job_path(job, "gate");
  const cJSON *step = gated_step(job, ran, gate);
  job_push(job, step);
  take_snapshot(job);
  job_start_agent(job, NULL);
  events_wait(job, step, "stdout", "up");
  redis_server_kill(job->server);
  marks_open_gate(gate);
  agent_process_wait_log(job->agent, "exit=0");
  restart(job);
  job_expect_answer(job, step, 0, NULL, "up\ndown\n");
  job_wait_length(job, "in", 0);
  assert_int_equal(marks_count(ran), 1);
  expect_nothing_left(job);
}

/* The step is known to have been taken, not to have been started. */
JOB_TEST(what_was_taken_in_the_snapshot_is_answered_once) {
  const char *ran = job_path(job, "ran");
  const char *gate = job_path(job, "gate");
  const cJSON *running = gated_step(job, ran, gate);
  const cJSON *waiting = job_step(job, "echo", "waiting", NULL);
  job_push(job, running);
  events_wait(job, running, "stdout", "up");
  take_snapshot(job);
  job_push(job, waiting);
  job_wait_length(job, "inflight", 2);
  restart(job);
  marks_open_gate(gate);
  job_expect_answer(job, running, 0, NULL, "up\ndown\n");
  job_expect_answer(job, waiting, 0, NULL, "waiting\n");
  assert_int_equal(marks_count(ran), 1);
  expect_nothing_left(job);
}

/* The snapshot is of a moment between two takings, after which nothing was delivered: Redis has
   nothing to tell that it went back, and hands the second one out once more. */
JOB_TEST(what_was_taken_after_the_snapshot_is_answered_once) {
  const char *ran = job_path(job, "ran");
  const char *gate = job_path(job, "gate");
  const cJSON *running = gated_step(job, ran, gate);
  const cJSON *first = job_step(job, "echo", "first", NULL);
  const cJSON *second = job_step(job, "echo", "second", NULL);
  job_push(job, running);
  events_wait(job, running, "stdout", "up");
  const cJSON *both[] = {first, second};
  for (size_t i = 0; i < 2; i++) {
    char *payload = cJSON_PrintUnformatted(both[i]);
    redisAppendCommand(job->redis, "LPUSH sandbox:%s:in %s", job->id, payload);
    cJSON_free(payload);
  }
  redisAppendCommand(job->redis, "LLEN sandbox:%s:in", job->id);
  redisAppendCommand(job->redis, "SAVE");
  for (size_t i = 0; i < 4; i++) {
    redisReply *reply;
    assert_int_equal(redisGetReply(job->redis, (void **)&reply), REDIS_OK);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    if (i == 2)
      assert_int_equal(reply->integer, 1); /* the second one is still there */
    freeReplyObject(reply);
  }
  job_wait_length(job, "inflight", 3);
  restart(job);
  job_wait_length(job, "in", 0);
  marks_open_gate(gate);
  job_expect_answer(job, running, 0, NULL, "up\ndown\n");
  job_expect_answer(job, first, 0, NULL, "first\n");
  job_expect_answer(job, second, 0, NULL, "second\n");
  assert_int_equal(marks_count(ran), 1);
  assert_int_equal(cJSON_GetArraySize(events_of(job, second)), 3);
  expect_nothing_left(job);
}

/* Both lie in `in` again: the next agent of this job is not to be stopped by the second shutdown.
 */
JOB_TEST_NO_AGENT(a_shutdown_is_obeyed_once) {
  const char *ran = job_path(job, "ran");
  const char *gate = job_path(job, "gate");
  const cJSON *step = gated_step(job, ran, gate);
  job_push(job, step);
  job_push_shutdown(job);
  take_snapshot(job);
  job_start_agent(job, NULL);
  events_wait(job, step, "stdout", "up");
  job_wait_length(job, "inflight", 2);
  restart(job);
  agent_process_wait_log(job->agent, ROLLED_BACK);
  job_wait_length(job, "in", 0);
  marks_open_gate(gate);
  job_expect_answer(job, step, 0, NULL, "up\ndown\n");
  job_expect_exit(job, 0);
  assert_int_equal(marks_count(ran), 1);
  assert_int_equal(job_length(job, "inflight"), 0);
  assert_int_equal(job_length(job, "in"), 0);
}

/* It has run, its result was there and is gone: it is not run again, and not left unanswered. */
JOB_TEST_NO_AGENT(an_answer_that_was_lost_is_said_to_be) {
  const char *ran = job_path(job, "ran");
  const cJSON *step = job_script(job, job_format(job, "echo >>%s", ran));
  const cJSON *after = job_step(job, "echo", "after", NULL);
  job_push(job, step);
  take_snapshot(job);
  job_start_agent(job, NULL);
  job_expect_answer(job, step, 0, NULL, NULL);
  job_wait_length(job, "inflight", 0);
  restart(job);
  job_expect_answer(job, step, -1, LOST, NULL);
  assert_int_equal(marks_count(ran), 1);
  job_expect_answer(job, (job_push(job, after), after), 0, NULL, "after\n");
  /* The id is no longer taken for the one that was lost. */
  job_expect_answer(job, (job_push(job, step), step), 0, NULL, NULL);
  assert_int_equal(marks_count(ran), 2);
  expect_nothing_left(job);
}

/* A result whose acknowledgement was lost with the connection comes once more. */
JOB_TEST(what_was_pushed_after_it_runs) {
  job_run(job, job_step(job, "true", NULL));
  for (int round = 0; round < 3; round++) {
    restart(job);
    const cJSON *step = job_step(job, "echo", "on", NULL);
    job_push(job, step);
    const cJSON *result = job_result(job);
    if (strcmp(job_text(result, "stepId"), job_text(step, "stepId")) != 0)
      result = job_result(job);
    assert_string_equal(job_text(result, "stepId"), job_text(step, "stepId"));
    job_expect_result(job, result, 0, NULL, "on\n");
    assert_int_equal(cJSON_GetArraySize(events_of(job, step)), 3);
  }
  expect_nothing_left(job);
}
