/* A cancel stops a running step or prevents a waiting one from running. Either is answered. */

#include "tests/support/job.h"
#include "tests/support/marks.h"

#define CANCELLED "cancelled: by a cancel step"

/* The time from SIGTERM to SIGKILL, which is the same as at a deadline. */
enum { GRACE_MS = 10000 };

JOB_TEST(a_cancel_ends_the_running_step) {
  const char *sleep = job_sleep(job, 600);
  const cJSON *step = job_push_endless(job, sleep);
  job_push_cancel(job, step);
  const cJSON *result = job_expect_answer(job, step, -1, CANCELLED, "up\n");
  assert_int_equal(job_event_count(result), 3);
  assert_string_equal(job_lines(job, step, "completed"), "exit=-1 timedOut=False\n");
  assert_int_equal(proc_find(sleep), 0);
  job_expect_to_go_on(job);
  job_expect_nothing_left(job);
}

/* A second cancel does not shorten the grace period. */
JOB_TEST(a_second_cancel_changes_nothing) {
  const cJSON *step =
      marks_step(job, "trap 'gate; echo bye; exit 0' TERM; echo up; sleep 600 & wait");
  job_push_until(job, step, "up");
  job_push_cancel(job, step);
  job_push_cancel(job, step);
  job_wait_length(job, "control", 0); /* both took effect */
  marks_open_gate(job, "");
  job_expect_answer(job, step, -1, CANCELLED, "up\nbye\n");
  job_run(job, job_step(job, "true", NULL));
  job_expect_nothing_left(job);
}

JOB_TEST(a_waiting_step_is_cancelled_without_running) {
  job->schema_version = 2;
  const char *mark = job_path(job, "mark");
  const cJSON *running = job_push_endless(job, job_sleep(job, 600));
  const cJSON *waiting = job_step(job, "touch", mark, NULL);
  const cJSON *before = job_push_echo(job, "before");
  job_push(job, waiting);
  const cJSON *after = job_push_echo(job, "after");
  job_push_cancel(job, waiting);
  const cJSON *result = job_expect_answer(job, waiting, -1, CANCELLED, NULL);
  assert_int_equal(job_event_count(result), 0);
  assert_int_equal(cJSON_GetArraySize(job_events(job, waiting)), 0);
  assert_string_equal(job_lines(job, running, "completed"), ""); /* still running */
  job_wait_length(job, "inflight", 2);
  job_push_cancel(job, running);
  job_expect_answer(job, running, -1, CANCELLED, "up\n");
  job_expect_answer(job, before, 0, NULL, "before\n");
  job_expect_answer(job, after, 0, NULL, "after\n");
  assert_int_not_equal(access(mark, F_OK), 0);
  job_expect_nothing_left(job);
}

JOB_TEST(a_cancel_of_an_unknown_step_is_only_logged) {
  const cJSON *finished = job_step(job, "true", NULL);
  job_run(job, finished);
  job_push_cancel(job, finished);
  agent_process_wait_log(job->agent, "cancel: no such step is running or waiting");
  const cJSON *running = job_push_endless(job, job_sleep(job, 600));
  job_push_cancel(job, job_step(job, "never-pushed", NULL));
  job_wait_length(job, "control", 0);
  job_push_cancel(job, running);
  job_expect_answer(job, running, -1, CANCELLED, "up\n");
  job_expect_nothing_left(job);
}

/* The step that was pushed before the shutdown runs before it, although another one is
   cancelled. */
JOB_TEST(a_cancel_does_not_move_a_shutdown_ahead) {
  const cJSON *running = job_push_endless(job, job_sleep(job, 600));
  const cJSON *before = job_push_echo(job, "before");
  job_push_shutdown(job);
  (void)job_push_echo(job, "after");
  job_push_cancel(job, running);
  job_expect_answer(job, running, -1, CANCELLED, "up\n");
  job_expect_answer(job, before, 0, NULL, "before\n");
  job_expect_exit(job, 0);
  assert_int_equal(job_length(job, "results"), 0);
  assert_int_equal(job_length(job, "in") + job_length(job, "inflight"), 1); /* for the next agent */
}

JOB_TEST(a_step_behind_a_shutdown_can_be_cancelled) {
  const cJSON *running = job_push_endless(job, job_sleep(job, 600));
  job_push_shutdown(job);
  const cJSON *behind = job_push_echo(job, "behind");
  job_push_cancel(job, behind);
  assert_int_equal(job_event_count(job_expect_answer(job, behind, -1, CANCELLED, NULL)), 0);
  job_push_cancel(job, running);
  job_expect_answer(job, running, -1, CANCELLED, "up\n");
  job_expect_exit(job, 0);
  job_expect_keys(job, "committed", "events", NULL);
}

/* The first cancel ends the first of two steps with one id, the second cancel the second one. */
JOB_TEST(one_cancel_ends_one_of_two_equal_steps) {
  const char *sleep = job_sleep(job, 600);
  const cJSON *step = job_push_endless(job, sleep);
  job_push(job, step);
  job_wait_length(job, "inflight", 2);
  job_push_cancel(job, step);
  job_expect_answer(job, step, -1, CANCELLED, "up\n");
  assert_int_not_equal(proc_wait_for(sleep, WAIT_BOUND_MS), 0);
  job_push_cancel(job, step);
  job_expect_answer(job, step, -1, CANCELLED, "up\n");
  assert_string_equal(job_lines(job, step, "stdout"), "up\nup\n");
  job_expect_nothing_left(job);
}

/* The cancel is read when Redis replies again. The command cannot have ended before. */
JOB_TEST(a_cancel_takes_effect_when_redis_answers_again) {
  const cJSON *step = job_push_endless(job, job_sleep(job, 600));
  redis_server_freeze(job->server);
  redisAppendCommand(
      job->redis, "LPUSH sandbox:%s:control %s", job->id,
      job_json(job, "{'schemaVersion':1,'kind':'cancel','stepId':'%s'}", job_text(step, "stepId")));
  int done = 0;
  while (done == 0)
    assert_int_equal(redisBufferWrite(job->redis, &done), REDIS_OK);
  redis_server_thaw(job->server);
  redisReply *pushed;
  assert_int_equal(redisGetReply(job->redis, (void **)&pushed), REDIS_OK);
  freeReplyObject(pushed);
  job_expect_answer(job, step, -1, CANCELLED, "up\n");
  job_expect_nothing_left(job);
}

/* The step ends while Redis is unreachable, and the result is delivered later. */
JOB_TEST(a_step_cancelled_during_an_outage_is_answered_afterwards) {
  const cJSON *step = marks_step(job, "trap 'ran; gate; exit 0' TERM; echo up; sleep 600 & wait");
  job_push_until(job, step, "up");
  job_push_cancel(job, step);
  job_wait_length(job, "control", 0);
  redis_server_freeze(job->server);
  marks_open_gate(job, "");
  agent_process_wait_log(job->agent, "exit=-1");
  redis_server_thaw(job->server);
  job_expect_answer(job, step, -1, CANCELLED, "up\n");
  assert_int_equal(marks_count(job), 1);
  job_expect_nothing_left(job);
}
