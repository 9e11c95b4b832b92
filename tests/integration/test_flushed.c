/* A Redis that is emptied, or becomes the copy of a stale one and a primary again, while the
   agent's connections stay or come back at once. */

#include "tests/support/events.h"
#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define LOST "lost: the step has run, and redis has lost its result"

static cJSON *gated_step(struct job *job) {
  return marks_step(job, "ran; echo up; gate");
}

/* The server that pushes has seen it too, and pushes once more what it has no answer to. */
JOB_TEST(a_running_step_that_is_pushed_again_runs_once) {
  const cJSON *step = gated_step(job);
  events_push(job, step, "up");
  job_do(job, "FLUSHALL");
  job_push(job, step);
  job_wait_length(job, "in", 0);
  marks_open_gate(job, "");
  job_expect_answer(job, step, 0, NULL, "up\n");
  job_run(job, job_step(job, "true", NULL));
  assert_int_equal(marks_count(job), 1);
  job_expect_nothing_left(job);
}

struct intake_watch {
  struct job *job;
  int idle_seconds;
  int asked; /* questions that came after one which nobody answered */
};

/* In CLIENT LIST the seconds since a client's last question or answer. */
static bool has_asked_again(void *context) {
  struct intake_watch *watch = context;
  redisReply *clients = job_ask(watch->job, "CLIENT LIST");
  const char *intake = strstr(clients->str, ":in ");
  const char *idle = intake == NULL ? NULL : strstr(intake, " idle=");
  int seconds = idle == NULL ? 0 : atoi(idle + strlen(" idle="));
  freeReplyObject(clients);
  watch->asked += seconds < watch->idle_seconds;
  watch->idle_seconds = seconds;
  return watch->asked > 0;
}

/* Once `in` was empty for the time of a question, nothing comes from a Redis of earlier days. */
JOB_TEST(an_id_can_be_used_again_later) {
  enum { QUESTION_MS = 10000 };
  const cJSON *step = gated_step(job);
  events_push(job, step, "up");
  job_do(job, "FLUSHALL");
  marks_open_gate(job, "");
  job_expect_answer(job, step, 0, NULL, "up\n");
  struct intake_watch watch = {.job = job};
  assert_true(wait_until(has_asked_again, &watch, QUESTION_MS + WAIT_BOUND_MS));
  watch.asked = 0; /* the first one may be older than the loss */
  assert_true(wait_until(has_asked_again, &watch, QUESTION_MS + WAIT_BOUND_MS));
  job_expect_answer(job, (job_push(job, step), step), 0, NULL, "up\n");
  assert_int_equal(marks_count(job), 2);
  job_expect_nothing_left(job);
}

/* It is not put back, and so nothing else is removed in its place. */
JOB_TEST(what_is_too_large_takes_nothing_with_it) {
  const cJSON *first = gated_step(job);
  const cJSON *second = marks_step(job, "ran; echo up; gate 2");
  const cJSON *last = job_step(job, "echo", "last", NULL);
  events_push(job, first, "up");
  job_push_too_large(job, "large");
  job_push(job, second);
  job_push(job, last);
  job_wait_length(job, "inflight", 4);
  job_do(job, "FLUSHALL");
  agent_process_wait_log(job->agent, "redis has lost");
  marks_open_gate(job, "");
  job_expect_answer(job, first, 0, NULL, "up\n");
  assert_string_equal(job_text(job_result(job), "stepId"), "large");
  events_wait(job, second, "stdout", "up");
  assert_int_equal(job_length(job, "inflight"), 2);
  marks_open_gate(job, "2");
  job_expect_answer(job, second, 0, NULL, "up\n");
  job_expect_answer(job, last, 0, NULL, "last\n");
  assert_int_equal(marks_count(job), 2);
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

/* Makes one server what the other one is, as soon as it has one step in this list. */
static void copy_from(struct job *job, redisContext *redis, int port, const char *list) {
  const char *key = job_format(job, "sandbox:%s:%s", job->id, list);
  freeReplyObject(redisCommand(redis, "REPLICAOF 127.0.0.1 %d", port));
  if (!wait_until(has_one, &(struct awaited_copy){redis, key}, WAIT_BOUND_MS))
    job_fail(job, "`%s` was not copied", list);
  freeReplyObject(redisCommand(redis, "REPLICAOF NO ONE"));
}

/* The agent has just heard from the server, and hears from it again before it would ask who it is.
 */
static void go_back_to(struct job *job, struct redis_server *stale, const char *list) {
  job_run(job, job_step(job, "true", NULL));
  job_wait_length(job, "inflight", 0);
  copy_from(job, job->redis, redis_server_port(stale), list);
}

static void expect_lost(struct job *job, const cJSON *step) {
  job_expect_answer(job, step, -1, LOST, NULL);
  job_run(job, job_step(job, "true", NULL));
  assert_int_equal(marks_count(job), 1);
  job_expect_nothing_left(job);
}

TEST_OF(struct job *job, a_step_from_before_it_was_taken_runs_once, set_up_quick_copy,
        job_teardown) {
  struct redis_server *stale = redis_server_start(quick_copy);
  redisContext *redis = redis_server_connect(stale);
  const cJSON *step = marks_step(job, "ran; echo out");
  job_push(job, step);
  copy_from(job, redis, redis_server_port(job->server), "in");
  redisFree(redis);
  job_start_agent(job, NULL);
  job_expect_answer(job, step, 0, NULL, "out\n");
  go_back_to(job, stale, "in");
  expect_lost(job, step);
  redis_server_stop(stale);
}

TEST_OF(struct job *job, a_step_from_before_it_was_answered_runs_once, set_up_quick_copy,
        job_teardown) {
  struct redis_server *stale = redis_server_start(quick_copy);
  redisContext *redis = redis_server_connect(stale);
  const cJSON *step = gated_step(job);
  job_start_agent(job, NULL);
  events_push(job, step, "up");
  copy_from(job, redis, redis_server_port(job->server), "inflight");
  redisFree(redis);
  marks_open_gate(job, "");
  job_expect_answer(job, step, 0, NULL, "up\n");
  go_back_to(job, stale, "inflight");
  expect_lost(job, step);
  redis_server_stop(stale);
}

TEST_OVERLAP(3)
