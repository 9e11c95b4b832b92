/* The idle limit: 60 s a cycle, which is why everything here goes on side by side. */

#include "tests/support/events.h"
#include "tests/support/job.h"
#include "tests/support/proc.h"
#include "tests/support/proxy.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* One cycle, less what clocks may differ, and more what a busy machine may add. */
enum { CYCLE_MS = 60000, EARLY_MS = 500, LATE_MS = 6000 };

enum {
  BY_FLAG,
  BY_VARIABLE,
  FLAG_WINS,
  AFTER_A_STEP,
  WITHOUT_REDIS,
  OUTPUT_WAITS,
  RESULT_WAITS,
  LINES_WAIT,
  START_WAITS,
  STEP_COUNTS,
  CASES
};

struct agents {
  struct job *jobs[CASES];
  struct proxy *proxy; /* of START_WAITS */
  int64_t idle_since[CASES];
  int64_t left_at[CASES];
};

static struct job *start(const char *cycles, const char *variable) {
  struct job *job = job_new(redis_server_start(NULL));
  const char *arguments[] = {"--redis-url", job->url, "--job-id", job->id, NULL, NULL, NULL};
  if (cycles != NULL) {
    arguments[4] = "--idle-cycles";
    arguments[5] = cycles;
  }
  const char *const environment[] = {
      job_format(job, "AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES=%s", variable), NULL};
  job->agent = agent_process_start(&(struct agent_setup){
      .arguments = arguments, .environment = variable == NULL ? NULL : environment});
  return job;
}

static bool all_have_left(void *context) {
  struct agents *agents = context;
  bool all = true;
  for (int i = 0; i < CASES; i++) {
    if (agents->left_at[i] != 0)
      continue;
    if (agent_process_is_running(agents->jobs[i]->agent))
      all = false;
    else
      agents->left_at[i] = wait_now_ms();
  }
  return all;
}

/* Not after a step: the server could die between its result and the acknowledgement. */
static bool waits_for_a_step(void *context) {
  const struct job *job = context;
  redisReply *reply = redisCommand(job->redis, "INFO clients");
  bool waits = reply != NULL && reply->type == REDIS_REPLY_STRING &&
               strstr(reply->str, "blocked_clients:1") != NULL;
  freeReplyObject(reply);
  return waits;
}

/* Redis is gone, and the command too; its lines are more than may be held. */
static void start_lines_wait(struct agents *agents) {
  struct job *job = agents->jobs[LINES_WAIT] = job_new(redis_server_start(NULL));
  job_start_agent(job, "--idle-cycles", "1", "--hold-bytes", "65536", NULL);
  const char *gate = job_path(job, "gate");
  const char *script =
      job_format(job, "echo up; until [ -e %s ]; do sleep 0.01; done; seq 3000; exit 7", gate);
  const cJSON *step = job_script(job, script);
  job_push(job, step);
  events_wait(job, step, "stdout", "up");
  redis_server_kill(job->server);
  fclose(fopen(gate, "we"));
  assert_true(proc_wait_gone(job_format(job, "sh -c %s", script), WAIT_BOUND_MS));
  agents->idle_since[LINES_WAIT] = wait_now_ms();
}

/* Redis has given two steps, and never says that it knows of the first one's start. */
static void start_start_waits(struct agents *agents) {
  struct job *job = agents->jobs[START_WAITS] = job_new(redis_server_start(NULL));
  agents->proxy = proxy_start(redis_server_port(job->server), NULL);
  snprintf(job->url, sizeof job->url, "redis://%s127.0.0.1:%d", redis_server_login(),
           proxy_port(agents->proxy));
  job_start_agent(job, "--idle-cycles", "1", NULL);
  assert_true(wait_until(waits_for_a_step, job, WAIT_BOUND_MS));
  proxy_deafen(agents->proxy, RELAY_OUTBOX);
  job_push(job, job_step(job, "true", NULL));
  job_wait_length(job, "inflight", 1);
  job_push(job, job_step(job, "true", NULL));
  job_wait_length(job, "inflight", 2);
  redis_server_kill(job->server);
  agents->idle_since[START_WAITS] = wait_now_ms();
}

static int start_all(void **state) {
  struct agents *agents = calloc(1, sizeof *agents);
  assert_non_null(agents);
  *state = agents;
  agents->jobs[BY_FLAG] = start("1", NULL);
  agents->jobs[BY_VARIABLE] = start(NULL, "1");
  agents->jobs[FLAG_WINS] = start("1", "5");
  agents->jobs[AFTER_A_STEP] = start("1", NULL);
  agents->jobs[WITHOUT_REDIS] = start("1", NULL);
  agents->jobs[OUTPUT_WAITS] = start("1", NULL);
  agents->jobs[RESULT_WAITS] = start("1", NULL);
  agents->jobs[STEP_COUNTS] = start("1", NULL);
  for (int i = 0; i < CASES; i++)
    agents->idle_since[i] = wait_now_ms();
  start_lines_wait(agents);
  start_start_waits(agents);

  struct job *job = agents->jobs[STEP_COUNTS];
  job_push(job, job_step(job, "sleep", "8", NULL));

  job = agents->jobs[WITHOUT_REDIS];
  assert_true(wait_until(waits_for_a_step, job, WAIT_BOUND_MS));
  redis_server_kill(job->server);
  agents->idle_since[WITHOUT_REDIS] = wait_now_ms();

  job = agents->jobs[OUTPUT_WAITS];
  cJSON *step = job_step(job, "yes", job->id, NULL);
  cJSON_AddNumberToObject(step, "timeoutSeconds", 10);
  job_push(job, step);
  events_wait(job, step, "stdout", job->id);
  redis_server_kill(job->server);

  job = agents->jobs[RESULT_WAITS];
  const char *gate = job_path(job, "gate");
  step = job_script(
      job, job_format(job, "echo up; until [ -e %s ]; do sleep 0.01; done; echo last", gate));
  job_push(job, step);
  events_wait(job, step, "stdout", "up");
  redis_server_kill(job->server);
  fclose(fopen(gate, "we"));
  agent_process_wait_log(job->agent, "exit=0");
  agents->idle_since[RESULT_WAITS] = wait_now_ms();

  job = agents->jobs[AFTER_A_STEP];
  job_run(job, job_step(job, "sleep", "4", NULL));
  agents->idle_since[AFTER_A_STEP] = wait_now_ms();

  job_result(agents->jobs[STEP_COUNTS]);
  agents->idle_since[STEP_COUNTS] = wait_now_ms();

  job = agents->jobs[OUTPUT_WAITS];
  assert_true(proc_wait_gone(job_format(job, "yes %s", job->id), WAIT_BOUND_MS));
  agents->idle_since[OUTPUT_WAITS] = wait_now_ms();
  wait_until(all_have_left, agents, CYCLE_MS + LATE_MS);
  return 0;
}

static int stop_all(void **state) {
  struct agents *agents = *state;
  for (int i = 0; i < CASES; i++)
    job_free(agents->jobs[i]);
  proxy_stop(agents->proxy);
  free(agents);
  return 0;
}

static void expect_left_in_time(struct agents *agents, int which, int expected) {
  struct job *job = agents->jobs[which];
  if (agents->left_at[which] == 0)
    job_fail(job, "it still runs");
  int code = agent_process_wait(job->agent, 0);
  if (code != expected)
    job_fail(job, "exit code %d, not %d", code, expected);
  int64_t idle = agents->left_at[which] - agents->idle_since[which];
  if (idle < CYCLE_MS - EARLY_MS || idle > CYCLE_MS + LATE_MS)
    job_fail(job, "it left after %lld ms", (long long)idle);
}

TEST(a_flag_sets_the_limit) {
  expect_left_in_time(*state, BY_FLAG, 2);
}

TEST(the_heartbeat_ends_with_it) {
  struct agents *agents = *state;
  struct job *job = agents->jobs[AFTER_A_STEP];
  expect_left_in_time(agents, AFTER_A_STEP, 2);
  job_expect_keys(job, "committed", "events", NULL);
}

TEST(a_variable_sets_the_limit) {
  expect_left_in_time(*state, BY_VARIABLE, 2);
}

TEST(the_flag_wins_over_the_variable) {
  expect_left_in_time(*state, FLAG_WINS, 2);
}

TEST(a_step_starts_the_count_again) {
  expect_left_in_time(*state, AFTER_A_STEP, 2);
}

TEST(time_without_redis_counts) {
  expect_left_in_time(*state, WITHOUT_REDIS, 2);
}

/* The command is over, its output is not: that is time without a step, too. */
TEST(output_that_waits_for_redis_does_not_keep_it) {
  expect_left_in_time(*state, OUTPUT_WAITS, 3);
}

/* It is in the log, since nobody will find it anywhere else. */
TEST(a_result_that_waits_for_redis_does_not_keep_it) {
  struct agents *agents = *state;
  expect_left_in_time(agents, RESULT_WAITS, 3);
  const char *log = agent_process_log(agents->jobs[RESULT_WAITS]->agent);
  const char *result = strstr(log, "undelivered result: {");
  assert_non_null(result);
  assert_non_null(strstr(result, "\"outputContent\":\"up\\nlast\\n\",\"eventCount\":4}\n"));
}

/* The same when the hold has no room for the last lines. */
TEST(lines_that_wait_for_redis_do_not_keep_it) {
  struct agents *agents = *state;
  expect_left_in_time(agents, LINES_WAIT, 3);
  struct job *job = agents->jobs[LINES_WAIT];
  const char *result = strstr(agent_process_log(job->agent), "undelivered result: {");
  if (result == NULL)
    job_fail(job, "no undelivered result in the log");
  assert_non_null(strstr(result, "\\n2999\\n3000\\n\",\"eventCount\":3003}\n"));
  assert_non_null(strstr(result, "\"exitCode\":7,"));
}

TEST(a_step_that_cannot_start_does_not_keep_it) {
  expect_left_in_time(*state, START_WAITS, 3);
}

TEST(a_running_step_is_not_idle) {
  expect_left_in_time(*state, STEP_COUNTS, 2);
}

TEST_GROUP(start_all, stop_all)
