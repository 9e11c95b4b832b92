/* A Redis that comes back without what it had acknowledged: empty, or as it was some time before.
 */

#include "tests/support/events.h"
#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/test.h"

#define LOST "lost: the step has run, and redis has lost its result"
#define INTERRUPTED "interrupted: the agent ended while this step was running"

static cJSON *gated_step(struct job *job) {
  return marks_step(job, "ran; echo up; gate; echo down");
}

static const cJSON *push_echo(struct job *job, const char *text) {
  const cJSON *step = job_step(job, "echo", text, NULL);
  job_push(job, step);
  return step;
}

/* What the next start will find. */
static void take_snapshot(struct job *job) {
  job_do(job, "SAVE");
}

/* Redis comes back, and the agent has found out what it does not know any more. */
static void restart_seen(struct job *job) {
  job_restart_server(job);
  agent_process_wait_log(job->agent, "redis has lost what it had acknowledged");
}

/* The gate opens for the step that runs, which has run once. */
static void expect_gated(struct job *job, const cJSON *running) {
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\ndown\n");
  assert_int_equal(marks_count(job), 1);
}

JOB_TEST(an_empty_one_gets_every_answer) {
  const cJSON *running = events_push(job, gated_step(job), "up");
  const cJSON *first = push_echo(job, "first");
  const cJSON *second = push_echo(job, "second");
  job_wait_length(job, "inflight", 3);
  restart_seen(job);
  job_wait_length(job, "inflight", 3); /* for the agent after this one */
  expect_gated(job, running);
  job_expect_answer(job, first, 0, NULL, "first\n");
  job_expect_answer(job, second, 0, NULL, "second\n");
  job_expect_nothing_left(job);
}

/* Then the next agent knows as much as if nothing had been lost. */
JOB_TEST(an_empty_one_tells_the_next_agent) {
  const cJSON *running = events_push(job, gated_step(job), "up");
  const cJSON *waiting = push_echo(job, "waiting");
  job_wait_length(job, "inflight", 2);
  job_restart_server(job);
  job_wait_length(job, "inflight", 2);
  job_kill_agent(job);
  job_start_agent(job, NULL);
  job_expect_answer(job, running, -1, INTERRUPTED, NULL);
  job_expect_answer(job, waiting, 0, NULL, "waiting\n");
  assert_int_equal(marks_count(job), 1);
  job_expect_nothing_left(job);
}

/* The step lies in `in` again, while it runs. */
JOB_TEST_NO_AGENT(a_step_that_runs_is_not_run_again) {
  const cJSON *step = gated_step(job);
  job_push(job, step);
  take_snapshot(job);
  job_start_agent(job, NULL);
  events_wait(job, step, "stdout", "up");
  restart_seen(job);
  job_wait_length(job, "in", 0); /* was handed out once more */
  expect_gated(job, step);
  job_expect_nothing_left(job);
}

/* The step lies in `in` again, and is over: its result is held, and is the only one. */
JOB_TEST_NO_AGENT(a_step_that_ended_meanwhile_is_answered_once) {
  const cJSON *step = gated_step(job);
  job_push(job, step);
  take_snapshot(job);
  job_start_agent(job, NULL);
  events_wait(job, step, "stdout", "up");
  redis_server_kill(job->server);
  marks_open_gate(job, "");
  agent_process_wait_log(job->agent, "exit=0");
  job_restart_server(job);
  expect_gated(job, step);
  job_wait_length(job, "in", 0);
  assert_int_equal(marks_count(job), 1);
  job_expect_nothing_left(job);
}

/* The step is known to have been taken, not to have been started. */
JOB_TEST(what_was_taken_in_the_snapshot_is_answered_once) {
  const cJSON *running = events_push(job, gated_step(job), "up");
  take_snapshot(job);
  const cJSON *waiting = push_echo(job, "waiting");
  job_wait_length(job, "inflight", 2);
  job_restart_server(job);
  expect_gated(job, running);
  job_expect_answer(job, waiting, 0, NULL, "waiting\n");
  job_expect_nothing_left(job);
}

/* The snapshot is of a moment between two takings, after which nothing was delivered: Redis has
   nothing to tell that it went back, and hands the second one out once more. */
JOB_TEST(what_was_taken_after_the_snapshot_is_answered_once) {
  const cJSON *running = events_push(job, gated_step(job), "up");
  const cJSON *both[] = {job_step(job, "echo", "first", NULL),
                         job_step(job, "echo", "second", NULL)};
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
  job_restart_server(job);
  job_wait_length(job, "in", 0);
  expect_gated(job, running);
  job_expect_answer(job, both[0], 0, NULL, "first\n");
  job_expect_answer(job, both[1], 0, NULL, "second\n");
  assert_int_equal(cJSON_GetArraySize(events_of(job, both[1])), 3);
  job_expect_nothing_left(job);
}

/* Both lie in `in` again: the next agent of this job is not to be stopped by the second shutdown.
 */
JOB_TEST_NO_AGENT(a_shutdown_is_obeyed_once) {
  const cJSON *step = gated_step(job);
  job_push(job, step);
  job_push_shutdown(job);
  take_snapshot(job);
  job_start_agent(job, NULL);
  events_wait(job, step, "stdout", "up");
  job_wait_length(job, "inflight", 2);
  restart_seen(job);
  job_wait_length(job, "in", 0);
  expect_gated(job, step);
  job_expect_exit(job, 0);
  job_expect_keys(job, "committed", "events", NULL);
}

/* It has run, its result was there and is gone: it is not run again, and not left unanswered. */
JOB_TEST_NO_AGENT(an_answer_that_was_lost_is_said_to_be) {
  const cJSON *step = marks_step(job, "ran");
  job_push(job, step);
  take_snapshot(job);
  job_start_agent(job, NULL);
  job_expect_answer(job, step, 0, NULL, NULL);
  job_wait_length(job, "inflight", 0);
  job_restart_server(job);
  job_expect_answer(job, step, -1, LOST, NULL);
  assert_int_equal(marks_count(job), 1);
  job_expect_to_go_on(job);
  /* The id is no longer taken for the one that was lost. */
  job_expect_result(job, job_run(job, step), 0, NULL, NULL);
  assert_int_equal(marks_count(job), 2);
  job_expect_nothing_left(job);
}

/* A result whose acknowledgement was lost with the connection comes once more. */
JOB_TEST(what_was_pushed_after_it_runs) {
  job_run(job, job_step(job, "true", NULL));
  for (int round = 0; round < 3; round++) {
    job_restart_server(job);
    const cJSON *step = push_echo(job, "on");
    const cJSON *result = job_result(job);
    if (strcmp(job_text(result, "stepId"), job_text(step, "stepId")) != 0)
      result = job_result(job);
    assert_string_equal(job_text(result, "stepId"), job_text(step, "stepId"));
    job_expect_result(job, result, 0, NULL, "on\n");
    assert_int_equal(cJSON_GetArraySize(events_of(job, step)), 3);
  }
  job_expect_nothing_left(job);
}
