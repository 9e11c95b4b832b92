/* What an agent that was killed leaves behind is answered by the next one, each step once. */

#include <signal.h>
#include <unistd.h>

#include "tests/support/events.h"
#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define INTERRUPTED "interrupted: the agent ended while this step was running"

static void expect_nothing_left(struct job *job) {
  job_wait_length(job, "inflight", 0);
  job_shut_down(job);
  assert_int_equal(job_length(job, "results"), 0);
  job_expect_keys(job, "committed", "events", NULL);
}

/* A step that leaves one line in a file each time that it runs. */
static cJSON *counted_step(struct job *job, const char *ran, const char *then) {
  return job_script(job, job_format(job, "echo >>%s; echo one; echo two; %s", ran, then));
}

static void push_inflight(struct job *job, const char *payload, size_t length) {
  job_do(job, "LPUSH sandbox:%s:inflight %b", job->id, payload, length);
}

/* As an agent that is gone has taken it. */
static void put_inflight(struct job *job, const cJSON *step) {
  char *payload = cJSON_PrintUnformatted(step);
  push_inflight(job, payload, strlen(payload));
  free(payload);
}

JOB_TEST(the_running_step_is_answered_and_the_others_run) {
  const char *ran = job_path(job, "ran");
  const cJSON *running = counted_step(job, ran, job_format(job, "exec %s", job_sleep(job, 600)));
  const cJSON *first = counted_step(job, ran, "echo first");
  const cJSON *second = counted_step(job, ran, "echo second");
  job_push(job, running);
  job_push(job, first);
  job_push(job, second);
  events_wait(job, running, "stdout", "two");
  job_wait_length(job, "inflight", 3);
  job_kill_agent(job);
  job_start_agent(job, NULL);
  const cJSON *result = job_expect_answer(job, running, -1, INTERRUPTED, NULL);
  assert_int_equal(job_event_count(result), 3);
  assert_int_equal(cJSON_GetArraySize(events_of(job, running)), 3);
  job_expect_answer(job, first, 0, NULL, "one\ntwo\nfirst\n");
  job_expect_answer(job, second, 0, NULL, "one\ntwo\nsecond\n");
  assert_int_equal(marks_count(ran), 3);
  agent_process_wait_log(job->agent, INTERRUPTED);
  expect_nothing_left(job);
}

JOB_TEST(one_agent_of_many_answers) {
  const char *ran = job_path(job, "ran");
  const cJSON *running = counted_step(job, ran, job_format(job, "exec %s", job_sleep(job, 600)));
  job_push(job, running);
  events_wait(job, running, "stdout", "two");
  job_kill_agent(job);
  job_start_agent(job, NULL);
  job_expect_answer(job, running, -1, INTERRUPTED, NULL);
  job_kill_agent(job);
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "true", NULL));
  assert_int_equal(marks_count(ran), 1);
  expect_nothing_left(job);
}

/* Redis handles what arrives together before it writes to anybody: the step is taken, and from then
   on nothing can be written. */
static void push_and_pause(struct job *job, const cJSON *step) {
  char *payload = cJSON_PrintUnformatted(step);
  redisAppendCommand(job->redis, "LPUSH sandbox:%s:in %s", job->id, payload);
  redisAppendCommand(job->redis, "CLIENT PAUSE 600000 WRITE");
  free(payload);
  for (int i = 0; i < 2; i++) {
    redisReply *reply;
    assert_int_equal(redisGetReply(job->redis, (void **)&reply), REDIS_OK);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
  }
}

JOB_TEST(what_was_taken_and_not_started_runs) {
  const char *ran = job_path(job, "ran");
  const cJSON *step = counted_step(job, ran, "true");
  job_run(job, job_step(job, "true", NULL));
  push_and_pause(job, step);
  assert_int_equal(job_length(job, "inflight"), 1);
  assert_int_equal(job_length(job, "in"), 0);
  job_kill_agent(job);
  assert_int_equal(marks_count(ran), 0);
  job_do(job, "CLIENT UNPAUSE");
  job_start_agent(job, NULL);
  assert_int_equal(job_event_count(job_expect_answer(job, step, 0, NULL, "one\ntwo\n")), 4);
  assert_int_equal(marks_count(ran), 1);
  assert_int_equal(cJSON_GetArraySize(events_of(job, step)), 4);
  expect_nothing_left(job);
}

/* It is over, and Redis does not know: then nobody does. */
JOB_TEST(what_ended_and_was_not_told_is_interrupted) {
  const char *ran = job_path(job, "ran");
  const char *gate = job_path(job, "gate");
  const cJSON *step =
      counted_step(job, ran, job_format(job, "until [ -e %s ]; do sleep 0.01; done", gate));
  job_push(job, step);
  events_wait(job, step, "stdout", "two");
  job_do(job, "CLIENT PAUSE 600000 WRITE");
  fclose(fopen(gate, "we"));
  agent_process_wait_log(job->agent, "exit=0");
  job_kill_agent(job);
  job_do(job, "CLIENT UNPAUSE");
  job_start_agent(job, NULL);
  assert_int_equal(job_event_count(job_expect_answer(job, step, -1, INTERRUPTED, NULL)), 3);
  assert_int_equal(marks_count(ran), 1);
  expect_nothing_left(job);
}

JOB_TEST(what_waited_when_the_agent_was_stopped_runs_later) {
  const cJSON *running = job_script(job, job_format(job, "exec %s", job_sleep(job, 600)));
  const cJSON *first = job_step(job, "echo", "first", NULL);
  const cJSON *second = job_step(job, "echo", "second", NULL);
  job_push(job, running);
  events_wait(job, running, "started", "sh");
  job_push(job, first);
  job_push(job, second);
  job_wait_length(job, "inflight", 3);
  kill(agent_process_pid(job->agent), SIGTERM);
  job_expect_exit(job, 128 + SIGTERM);
  job_expect_answer(job, running, -1, "cancelled: the agent was stopped by SIGTERM", NULL);
  job_expect_keys(job, "committed", "events", "inflight", NULL);
  job_start_agent(job, NULL);
  job_expect_answer(job, first, 0, NULL, "first\n");
  job_expect_answer(job, second, 0, NULL, "second\n");
  expect_nothing_left(job);
}

JOB_TEST_NO_AGENT(every_kind_is_found) {
  const char *mark = job_path(job, "mark");
  const cJSON *run = job_step(job, "echo", "run", NULL);
  const cJSON *cancelled = job_step(job, "touch", mark, NULL);
  const cJSON *behind = job_step(job, "echo", "behind", NULL);
  push_inflight(job, "{\"stepId\":\"odd\",", 16);
  put_inflight(job, run);
  put_inflight(job, cancelled);
  job_push_cancel(job, cancelled);
  job_do(job, "LMOVE sandbox:%s:in sandbox:%s:inflight RIGHT LEFT", job->id, job->id);
  job_push_shutdown(job);
  job_do(job, "LMOVE sandbox:%s:in sandbox:%s:inflight RIGHT LEFT", job->id, job->id);
  put_inflight(job, behind);
  assert_int_equal(job_length(job, "inflight"), 6);
  job_start_agent(job, NULL);
  job_expect_answer(job, cancelled, -1, "cancelled: by a cancel step", NULL);
  const cJSON *refused = job_result(job);
  assert_string_equal(job_text(refused, "stepId"), "odd");
  assert_int_equal(job_event_count(refused), 0);
  job_expect_answer(job, run, 0, NULL, "run\n");
  job_expect_exit(job, 0);
  assert_int_not_equal(access(mark, F_OK), 0);
  assert_int_equal(job_length(job, "inflight"), 1);
  job_start_agent(job, NULL);
  job_expect_answer(job, behind, 0, NULL, "behind\n");
  expect_nothing_left(job);
}

JOB_TEST_NO_AGENT(one_that_is_too_large_is_refused_in_its_place) {
  size_t size = (size_t)64 * 1024 * 1024 + 1;
  char *payload = malloc(size);
  assert_non_null(payload);
  memset(payload, ' ', size);
  memcpy(payload, "{\"stepId\":\"large\",", 18);
  const cJSON *before = job_step(job, "echo", "before", NULL);
  const cJSON *after = job_step(job, "echo", "after", NULL);
  put_inflight(job, before);
  push_inflight(job, payload, size);
  put_inflight(job, after);
  free(payload);
  job_start_agent(job, NULL);
  job_expect_answer(job, before, 0, NULL, "before\n");
  const cJSON *refused = job_result(job);
  assert_string_equal(job_text(refused, "stepId"), "large");
  job_expect_part(job, refused, "errorMessage", "67108864");
  job_expect_answer(job, after, 0, NULL, "after\n");
  expect_nothing_left(job);
}

JOB_TEST_NO_AGENT(more_than_fit_into_the_agent_are_found) {
  enum { TAKEN = 150, PUSHED = 20 };
  const cJSON *steps[TAKEN + PUSHED];
  for (int i = 0; i < TAKEN + PUSHED; i++) {
    steps[i] = job_step(job, "echo", job_format(job, "%d", i), NULL);
    (i < TAKEN ? put_inflight : job_push)(job, steps[i]);
  }
  job_start_agent(job, NULL);
  for (int i = 0; i < TAKEN + PUSHED; i++)
    job_expect_answer(job, steps[i], 0, NULL, job_format(job, "%d\n", i));
  expect_nothing_left(job);
}

/* Without its payload, without its events, with somebody else's. */
JOB_TEST_NO_AGENT(a_started_step_is_answered_whatever_is_left_of_it) {
  const cJSON *other = job_step(job, "echo", "other", NULL);
  put_inflight(job, other);
  job_do(job, "SET sandbox:%s:started lone", job->id);
  job_do(job, "XADD sandbox:%s:events * data %s", job->id, "{\"stepId\":\"another\",\"seq\":7}");
  job_start_agent(job, NULL);
  const cJSON *result = job_result(job);
  assert_string_equal(job_text(result, "stepId"), "lone");
  job_expect_result(job, result, -1, INTERRUPTED, NULL);
  assert_int_equal(job_event_count(result), -1);
  result = job_result(job);
  assert_string_equal(job_text(result, "stepId"), job_text(other, "stepId"));
  expect_nothing_left(job);
}

/* Redis handles what arrives together before it writes to anybody: the step is taken, and the
   connection is gone before it was sent. */
static void push_and_lose(struct job *job, const cJSON *step) {
  char *payload = cJSON_PrintUnformatted(step);
  redisAppendCommand(job->redis, "LPUSH sandbox:%s:in %s", job->id, payload);
  redisAppendCommand(job->redis, "CLIENT KILL TYPE normal SKIPME yes");
  free(payload);
  for (int i = 0; i < 2; i++) {
    redisReply *reply;
    assert_int_equal(redisGetReply(job->redis, (void **)&reply), REDIS_OK);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    freeReplyObject(reply);
  }
}

JOB_TEST(a_step_that_was_lost_on_its_way_is_found) {
  job_run(job, job_step(job, "true", NULL));
  for (int round = 0; round < 5; round++) {
    const cJSON *step = job_step(job, "echo", "found", NULL);
    push_and_lose(job, step);
    job_expect_answer(job, step, 0, NULL, "found\n");
  }
  expect_nothing_left(job);
}

/* What runs, what waits and what was lost have the same bytes: only their number tells. */
JOB_TEST(a_lost_one_is_told_from_its_equals) {
  const char *ran = job_path(job, "ran");
  const char *gate = job_path(job, "gate");
  const cJSON *step =
      counted_step(job, ran, job_format(job, "until [ -e %s ]; do sleep 0.01; done", gate));
  job_push(job, step);
  events_wait(job, step, "stdout", "two");
  job_push(job, step);
  job_wait_length(job, "inflight", 2);
  push_and_lose(job, step);
  push_and_lose(job, step);
  job_wait_length(job, "inflight", 4);
  fclose(fopen(gate, "we"));
  for (int i = 0; i < 4; i++)
    job_expect_answer(job, step, 0, NULL, "one\ntwo\n");
  assert_int_equal(marks_count(ran), 4);
  expect_nothing_left(job);
}
