/* Redis loses data that it had acknowledged: it comes back empty or with older data, or the agent
   is connected to another server. The agent's processes stay, and its connections stay or come back
   at once. */

#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "wire/step.h"

#define LOST "lost: the step has run, and redis has lost its result"
#define INTERRUPTED "interrupted: the agent ended while this step was running"

static cJSON *gated_step(struct job *job) {
  return marks_step(job, "ran; echo up; gate; echo down");
}

/* Takes the snapshot that the next start of Redis loads. */
static void take_snapshot(struct job *job) {
  job_do(job, "SAVE");
}

/* Starts Redis, and waits until the agent has noticed the loss. */
static void restart_seen(struct job *job) {
  job_restart_server(job);
  agent_process_wait_log(job->agent, "redis has lost acknowledged data");
}

/* Opens the gate of the running step, and asserts that it has run once. */
static void expect_gated(struct job *job, const cJSON *running) {
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\ndown\n");
  assert_int_equal(marks_count(job), 1);
}

JOB_TEST(an_empty_redis_gets_the_answers_of_taken_steps) {
  const cJSON *running = job_push_until(job, gated_step(job), "up");
  const cJSON *fetched = job_push_echo(job, "fetched");
  (void)job_push_echo(job, "lost"); /* it waited in `in`, and is lost with Redis */
  job_wait_length(job, "inflight", 2);
  restart_seen(job);
  job_wait_length(job, "inflight", 2); /* so that a later agent finds them */
  expect_gated(job, running);
  job_expect_answer(job, fetched, 0, NULL, "fetched\n");
  job_expect_nothing_left(job);
}

/* The next agent finds the lists as if nothing had been lost. */
JOB_TEST(the_next_agent_finds_the_restored_steps) {
  const cJSON *running = job_push_until(job, gated_step(job), "up");
  const cJSON *waiting = job_push_echo(job, "waiting");
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

/* The step is in `in` again while it runs. */
JOB_TEST_NO_AGENT(a_running_step_does_not_run_again) {
  const cJSON *step = gated_step(job);
  job_push(job, step);
  take_snapshot(job);
  job_start_agent(job, NULL);
  job_wait_event(job, step, "stdout", "up");
  restart_seen(job);
  job_wait_length(job, "in", 0); /* the step was redelivered */
  expect_gated(job, step);
  job_expect_nothing_left(job);
}

/* The step is in `in` again after its end, and its result is not delivered yet. */
JOB_TEST_NO_AGENT(a_step_that_ended_before_the_rollback_is_answered_once) {
  const cJSON *step = gated_step(job);
  job_push(job, step);
  take_snapshot(job);
  job_start_agent(job, NULL);
  job_wait_event(job, step, "stdout", "up");
  redis_server_kill(job->server);
  marks_open_gate(job, "");
  agent_process_wait_log(job->agent, "exit=0");
  job_restart_server(job);
  expect_gated(job, step);
  job_wait_length(job, "in", 0);
  assert_int_equal(marks_count(job), 1);
  job_expect_nothing_left(job);
}

/* In the snapshot the step was taken, but not started. */
JOB_TEST(a_step_taken_before_the_snapshot_is_answered_once) {
  const cJSON *running = job_push_until(job, gated_step(job), "up");
  take_snapshot(job);
  const cJSON *waiting = job_push_echo(job, "waiting");
  job_wait_length(job, "inflight", 2);
  job_restart_server(job);
  expect_gated(job, running);
  job_expect_answer(job, waiting, 0, NULL, "waiting\n");
  job_expect_nothing_left(job);
}

/* Nothing was delivered after the snapshot, so `committed` does not show the loss, and Redis
   redelivers the step. */
JOB_TEST(a_step_taken_after_the_snapshot_is_answered_once) {
  const cJSON *running = job_push_until(job, gated_step(job), "up");
  const cJSON *fetched = job_push_echo(job, "fetched");
  job_wait_length(job, "inflight", 2);
  job_do(job, "EVAL %s 2 sandbox:%s:inflight sandbox:%s:in",
         "return redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT')", job->id, job->id);
  job_do(job, "CLIENT KILL TYPE normal SKIPME yes");
  agent_process_wait_log(job->agent, "redis has lost steps that were taken");
  expect_gated(job, running);
  job_expect_answer(job, fetched, 0, NULL, "fetched\n");
  job_wait_length(job, "in", 0);
  assert_int_equal(cJSON_GetArraySize(job_events(job, fetched)), 3);
  job_expect_nothing_left(job);
}

/* The step and the shutdown are in `in` again. The second shutdown must not stop the next agent. */
JOB_TEST_NO_AGENT(a_shutdown_takes_effect_once) {
  const cJSON *step = gated_step(job);
  job_push(job, step);
  job_push_shutdown(job);
  take_snapshot(job);
  job_start_agent(job, NULL);
  job_wait_event(job, step, "stdout", "up");
  job_wait_length(job, "inflight", 2);
  restart_seen(job);
  job_wait_length(job, "in", 0);
  expect_gated(job, step);
  job_expect_exit(job, 0);
  job_expect_keys(job, "committed", "events", NULL);
}

/* The step has run, and Redis has lost its result. It does not run again, and is answered. */
JOB_TEST_NO_AGENT(a_lost_result_is_reported) {
  job->schema_version = 2;
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
  job_expect_nothing_left(job);
}

JOB_TEST(a_step_that_is_pushed_after_the_loss_runs) {
  job_run(job, job_step(job, "true", NULL));
  for (int round = 0; round < 3; round++) {
    job_restart_server(job);
    const cJSON *step = job_push_echo(job, "on");
    const cJSON *result = job_result(job);
    if (strcmp(job_text(result, "stepId"), job_text(step, "stepId")) != 0)
      result = job_result(job);
    assert_string_equal(job_text(result, "stepId"), job_text(step, "stepId"));
    job_expect_result(job, result, 0, NULL, "on\n");
    assert_int_equal(cJSON_GetArraySize(job_events(job, step)), 3);
  }
  job_expect_nothing_left(job);
}

/* --- the connections are not lost --- */

/* The server has noticed the loss, too, and pushes unanswered steps again. */
static void push_again_while_it_runs(struct job *job, bool is_noticed) {
  const cJSON *step = marks_step(job, "ran; echo up; gate");
  job_push_until(job, step, "up");
  job_do(job, "FLUSHALL");
  job_push(job, step);
  job_wait_length(job, "in", 0);
  if (is_noticed)
    agent_process_wait_log(job->agent, "redis has lost acknowledged data");
  marks_open_gate(job, "");
  job_expect_answer(job, step, 0, NULL, "up\n");
  job_run(job, job_step(job, "true", NULL));
  assert_int_equal(marks_count(job), 1);
  job_expect_nothing_left(job);
}

JOB_TEST(a_running_step_that_is_pushed_again_runs_once) {
  push_again_while_it_runs(job, false);
}

JOB_TEST(a_running_step_that_is_pushed_again_is_not_answered_as_lost) {
  push_again_while_it_runs(job, true);
}

struct intake_watch {
  struct job *job;
  int idle_seconds;
  int asked; /* how many BLMOVEs followed one that timed out */
};

/* CLIENT LIST has the seconds since the last command or reply of a client. */
static bool count_requests(void *context) {
  struct intake_watch *watch = context;
  const char *intake = strstr(job_ask_text(watch->job, "CLIENT LIST"), ":in ");
  const char *idle = intake == NULL ? NULL : strstr(intake, " idle=");
  int seconds = idle == NULL ? 0 : atoi(idle + strlen(" idle="));
  watch->asked += seconds < watch->idle_seconds;
  watch->idle_seconds = seconds;
  return watch->asked > 0;
}

/* After BLMOVE has found `in` empty for its whole time, Redis can redeliver nothing. */
JOB_TEST(an_id_can_be_used_again_later) {
  enum { QUESTION_MS = 10000 };
  const cJSON *step = marks_step(job, "ran; echo up; gate");
  job_push_until(job, step, "up");
  job_do(job, "FLUSHALL");
  marks_open_gate(job, "");
  job_expect_answer(job, step, 0, NULL, "up\n");
  struct intake_watch watch = {.job = job};
  assert_true(wait_until(count_requests, &watch, QUESTION_MS + WAIT_BOUND_MS));
  watch.asked = 0; /* the first BLMOVE may precede the loss */
  assert_true(wait_until(count_requests, &watch, QUESTION_MS + WAIT_BOUND_MS));
  job_expect_answer(job, (job_push(job, step), step), 0, NULL, "up\n");
  assert_int_equal(marks_count(job), 2);
  job_expect_nothing_left(job);
}

static bool ask_for_fetched_step(void *context) {
  const struct job *job = context;
  (void)kill(agent_process_pid(job->agent), SIGUSR1);
  return strstr(agent_process_log(job->agent), "one step fetched ahead") != NULL;
}

/* The large step is not restored, and no other step is removed in its place. The steps behind it
   were lost with Redis. */
JOB_TEST(a_step_that_is_too_large_to_restore_affects_no_other_step) {
  const cJSON *first = marks_step(job, "ran; echo up; gate");
  const cJSON *second = marks_step(job, "ran; echo up; gate 2");
  job_push_until(job, first, "up");
  job_push_larger(job, "large", STEP_PAYLOAD_MAX);
  assert_true(wait_until(ask_for_fetched_step, job, 6 * WAIT_BOUND_MS));
  job_do(job, "FLUSHALL");
  agent_process_wait_log(job->agent, "redis has lost");
  job_push(job, second);
  const cJSON *last = job_push_echo(job, "last");
  marks_open_gate(job, "");
  job_expect_answer(job, first, 0, NULL, "up\n");
  assert_string_equal(job_text(job_result(job), "stepId"), "large");
  job_wait_event(job, second, "stdout", "up");
  job_wait_length(job, "inflight", 2);
  marks_open_gate(job, "2");
  job_expect_answer(job, second, 0, NULL, "up\n");
  job_expect_answer(job, last, 0, NULL, "last\n");
  assert_int_equal(marks_count(job), 2);
  job_expect_nothing_left(job);
}

/* Redis goes back to a state that has the step. */
JOB_TEST(a_step_that_is_too_large_to_restore_is_answered_once) {
  const cJSON *running = marks_step(job, "ran; echo up; gate; echo down; gate 2");
  job_push_until(job, running, "up");
  job_push_larger(job, "large", STEP_PAYLOAD_MAX);
  assert_true(wait_until(ask_for_fetched_step, job, 6 * WAIT_BOUND_MS));
  take_snapshot(job);
  marks_open_gate(job, "");
  job_wait_event(job, running, "stdout", "down");
  restart_seen(job);
  marks_open_gate(job, "2");
  job_expect_answer(job, running, 0, NULL, "up\ndown\n");
  assert_string_equal(job_text(job_result(job), "stepId"), "large");
  job_expect_nothing_left(job);
}

static const char *const quick_copy[] = {"--repl-diskless-sync-delay", "0", NULL};

static int set_up_quick_copy(void **state) {
  *state = job_new(redis_server_start(quick_copy));
  return 0;
}

struct awaited_copy {
  redisContext *redis;
  const char *key;
};

static bool has_one(void *context) {
  const struct awaited_copy *awaited = context;
  redisReply *reply = redisCommand(awaited->redis, "LLEN %s", awaited->key);
  bool one = reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
  freeReplyObject(reply);
  return one;
}

/* Makes one server a replica of the other as soon as it has one step in this list. */
static void copy(struct job *job, struct redis_server *to, struct redis_server *from,
                 const char *list) {
  redisContext *redis = redis_server_connect(to);
  const char *key = job_format(job, "sandbox:%s:%s", job->id, list);
  freeReplyObject(redisCommand(redis, "REPLICAOF 127.0.0.1 %d", redis_server_port(from)));
  if (!wait_until(has_one, &(struct awaited_copy){redis, key}, WAIT_BOUND_MS))
    job_fail(job, "`%s` was not copied", list);
  freeReplyObject(redisCommand(redis, "REPLICAOF NO ONE"));
  redisFree(redis);
}

/* The agent has just had a reply, and gets another one before an ownership check is due. */
static void go_back_to(struct job *job, struct redis_server *stale, const char *list) {
  job_run(job, job_step(job, "true", NULL));
  job_wait_length(job, "inflight", 0);
  copy(job, job->server, stale, list);
}

static void expect_lost(struct job *job, const cJSON *step) {
  job_expect_answer(job, step, -1, LOST, NULL);
  job_run(job, job_step(job, "true", NULL));
  assert_int_equal(marks_count(job), 1);
  job_expect_nothing_left(job);
}

TEST_WITH(struct job *job, a_step_runs_once_if_redis_goes_back_before_its_take, set_up_quick_copy,
          job_teardown) {
  struct redis_server *stale = redis_server_start(quick_copy);
  const cJSON *step = marks_step(job, "ran; echo out");
  job_push(job, step);
  copy(job, stale, job->server, "in");
  job_start_agent(job, NULL);
  job_expect_answer(job, step, 0, NULL, "out\n");
  go_back_to(job, stale, "in");
  expect_lost(job, step);
  redis_server_stop(stale);
}

TEST_WITH(struct job *job, a_step_runs_once_if_redis_goes_back_before_its_result, set_up_quick_copy,
          job_teardown) {
  struct redis_server *stale = redis_server_start(quick_copy);
  const cJSON *step = marks_step(job, "ran; echo up; gate");
  job_start_agent(job, NULL);
  job_push_until(job, step, "up");
  copy(job, stale, job->server, "inflight");
  marks_open_gate(job, "");
  job_expect_answer(job, step, 0, NULL, "up\n");
  go_back_to(job, stale, "inflight");
  expect_lost(job, step);
  redis_server_stop(stale);
}

TEST_OVERLAP(4)
