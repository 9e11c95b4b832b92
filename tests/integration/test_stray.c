/* A question that nobody waits for any more is answered nevertheless: the server moves a step that
   no agent was told of. It is found, in its place, and runs once. */

#include "tests/support/events.h"
#include "tests/support/job.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define INTERRUPTED "interrupted: the agent ended while this step was running"

struct awaited_clients {
  struct job *job;
  const char *blocked;
};

static bool are_blocked(void *context) {
  const struct awaited_clients *awaited = context;
  redisReply *reply = job_ask(awaited->job, "INFO clients");
  bool blocked = strstr(reply->str, awaited->blocked) != NULL;
  freeReplyObject(reply);
  return blocked;
}

static void wait_blocked(struct job *job, int clients) {
  const char *blocked = job_format(job, "blocked_clients:%d\r\n", clients);
  if (!wait_until(are_blocked, &(struct awaited_clients){job, blocked}, WAIT_BOUND_MS))
    job_fail(job, "there are never %d questions", clients);
}

/* The job has had an agent, and there is a question that is older than those of the next one. */
static redisContext *leave_question(struct job *job) {
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "true", NULL));
  job_shut_down(job);
  redisContext *stray = redis_server_connect(job->server);
  redisAppendCommand(stray, "BLMOVE sandbox:%s:in sandbox:%s:inflight RIGHT LEFT 0", job->id,
                     job->id);
  int done = 0;
  while (done == 0)
    assert_int_equal(redisBufferWrite(stray, &done), REDIS_OK);
  wait_blocked(job, 1);
  job_start_agent(job, NULL);
  wait_blocked(job, 2);
  return stray;
}

/* Leaves its name in `ran` each time it runs. */
static cJSON *named_step(struct job *job, const char *name) {
  return job_script(job,
                    job_format(job, "echo %s >>%s; echo %s", name, job_path(job, "ran"), name));
}

static cJSON *endless_step(struct job *job, const char *name) {
  return job_script(job, job_format(job, "echo %s >>%s; echo %s; exec %s", name,
                                    job_path(job, "ran"), name, job_sleep(job, 600)));
}

static void expect_ran(struct job *job, const char *names) {
  char text[256] = "";
  FILE *file = fopen(job_path(job, "ran"), "re");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  assert_string_equal(text, names);
}

JOB_TEST_NO_AGENT(what_it_moved_runs_first) {
  redisContext *stray = leave_question(job);
  const cJSON *first = named_step(job, "first");
  const cJSON *second = named_step(job, "second");
  job_push(job, first);
  job_push(job, second);
  job_expect_answer(job, first, 0, NULL, "first\n");
  job_expect_answer(job, second, 0, NULL, "second\n");
  redisFree(stray);
  expect_ran(job, "first\nsecond\n");
  job_expect_nothing_left(job);
}

/* The agent after that one knows which of the two was running. */
JOB_TEST_NO_AGENT(nothing_runs_twice_when_the_agent_is_killed) {
  redisContext *stray = leave_question(job);
  const cJSON *first = named_step(job, "first");
  const cJSON *second = endless_step(job, "second");
  const cJSON *third = named_step(job, "third");
  job_push(job, first);
  events_push(job, second, "second");
  job_push(job, third);
  job_wait_length(job, "in", 0);
  job_kill_agent(job);
  redisFree(stray);
  job_start_agent(job, NULL);
  job_expect_answer(job, first, 0, NULL, "first\n");
  job_expect_answer(job, second, -1, INTERRUPTED, NULL);
  job_expect_answer(job, third, 0, NULL, "third\n");
  expect_ran(job, "first\nsecond\nthird\n");
  job_expect_nothing_left(job);
}

/* Who is in the way of the one that is to be removed is not removed in its place. */
JOB_TEST_NO_AGENT(one_that_is_too_large_may_be_behind_it) {
  redisContext *stray = leave_question(job);
  const cJSON *first = named_step(job, "first");
  const cJSON *last = named_step(job, "last");
  job_push(job, first);
  job_push_too_large(job, "large");
  job_push(job, last);
  job_expect_answer(job, first, 0, NULL, "first\n");
  assert_string_equal(job_text(job_result(job), "stepId"), "large");
  job_expect_answer(job, last, 0, NULL, "last\n");
  redisFree(stray);
  expect_ran(job, "first\nlast\n");
  job_expect_nothing_left(job);
}

/* It is the older agent's question that gets the first step. */
JOB_TEST_NO_AGENT(it_may_be_that_of_an_agent_before_this_one) {
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "true", NULL));
  wait_blocked(job, 1);
  struct agent_process *older = job->agent;
  job->agent = NULL;
  job_start_agent(job, NULL);
  wait_blocked(job, 2);
  const cJSON *first = named_step(job, "first");
  const cJSON *second = endless_step(job, "second");
  job_push(job, first);
  job_push(job, second);
  job_expect_answer(job, first, 0, NULL, "first\n");
  events_wait(job, second, "stdout", "second");
  assert_int_equal(agent_process_wait(older, WAIT_BOUND_MS), 3);
  agent_process_free(older);
  job_kill_agent(job);
  job_start_agent(job, NULL);
  job_expect_answer(job, second, -1, INTERRUPTED, NULL);
  expect_ran(job, "first\nsecond\n");
  job_expect_nothing_left(job);
}
