/* The key that says that the agent is there, whatever it or its Redis is busy with. */

#include <signal.h>
#include <time.h>

#include "tests/support/events.h"
#include "tests/support/job.h"
#include "tests/support/proxy.h"
#include "tests/support/quoted.h"
#include "tests/support/wait.h"
#include "tests/test.h"

enum { LIFE_MS = 10000, PERIOD_MS = 2000, LATE_MS = 1000 };

/* Milliseconds that the key has to live; -2: it is not there. */
static long long time_left(struct job *job) {
  redisReply *reply = job_ask(job, "PTTL sandbox:%s:heartbeat", job->id);
  long long left = reply->integer;
  freeReplyObject(reply);
  return left;
}

static const cJSON *value(struct job *job) {
  redisReply *reply = job_ask(job, "GET sandbox:%s:heartbeat", job->id);
  if (reply->type != REDIS_REPLY_STRING)
    job_fail(job, "there is no heartbeat");
  cJSON *json = job_own(job, cJSON_Parse(reply->str));
  freeReplyObject(reply);
  return json;
}

static double number(const cJSON *json, const char *field) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, field);
  assert_true(cJSON_IsNumber(item));
  return item->valuedouble;
}

static bool is_there(void *context) {
  return time_left(context) >= 0;
}

static bool is_gone(void *context) {
  return time_left(context) == -2;
}

/* Watches for so long that it has never less than this to live; returns the least that it had. */
static long long watch(struct job *job, int64_t watch_ms, long long floor) {
  int64_t end = wait_now_ms() + watch_ms;
  long long least = LIFE_MS;
  while (wait_now_ms() < end) {
    long long left = time_left(job);
    least = left < least ? left : least;
    if (left < floor)
      job_fail(job, "the heartbeat has %lld ms to live", left);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
  return least;
}

/* No beat is late. */
static void expect_steady(struct job *job, int64_t watch_ms) {
  long long least = watch(job, watch_ms, LIFE_MS - PERIOD_MS - LATE_MS);
  assert_true(least < LIFE_MS - PERIOD_MS / 2); /* it was watched for longer than a beat */
}

static void expect_gone_for_good(struct job *job) {
  int64_t end = wait_now_ms() + PERIOD_MS + LATE_MS;
  do {
    if (time_left(job) != -2)
      job_fail(job, "there is a heartbeat");
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  } while (wait_now_ms() < end);
}

JOB_TEST(it_is_the_contract_s) {
  assert_true(wait_until(is_there, job, WAIT_BOUND_MS));
  redisReply *reply = job_ask(job, "GET sandbox:%s:heartbeat", job->id);
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  long long ts = 0;
  assert_int_equal(sscanf(reply->str, "{%*[^:]:%lld,", &ts), 1);
  assert_string_equal(reply->str, job_json(job, "{'Ts':%lld,'Pid':%d,'StepInFlight':false}", ts,
                                           (int)agent_process_pid(job->agent)));
  freeReplyObject(reply);
  long long age_ms = (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000 - ts;
  assert_in_range(age_ms + 1000, 0, 1000 + PERIOD_MS + LATE_MS);
  assert_in_range(time_left(job), 1, LIFE_MS);
}

/* In the order in which the server executes them. */
JOB_TEST_NO_AGENT(it_is_there_before_a_step_is_taken) {
  job_push(job, job_step(job, "true", NULL));
  redisContext *monitor = redis_server_connect(job->server);
  freeReplyObject(redisCommand(monitor, "MONITOR"));
  job_start_agent(job, NULL);
  const char *set = job_json(job, "'SET' 'sandbox:%s:heartbeat' '{", job->id);
  bool beaten = false, taken = false, executed = false;
  while (!taken) {
    redisReply *line = NULL;
    assert_int_equal(redisGetReply(monitor, (void **)&line), REDIS_OK);
    beaten |= strstr(line->str, set) != NULL;
    executed |= beaten && strstr(line->str, quoted("'EXEC'")) != NULL;
    taken = strstr(line->str, quoted("'BLMOVE'")) != NULL;
    freeReplyObject(line);
  }
  redisFree(monitor);
  assert_true(executed);
  job_result(job);
}

static bool says_in_flight(void *context) {
  return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(value(context), "StepInFlight"));
}

static bool says_idle(void *context) {
  return !says_in_flight(context);
}

JOB_TEST(it_tells_of_a_step) {
  const cJSON *step = job_step(job, "sleep", "5", NULL);
  job_push(job, step);
  events_wait(job, step, "started", "sleep");
  assert_true(wait_until(says_in_flight, job, PERIOD_MS + LATE_MS));
  expect_steady(job, 3000);
  job_expect_answer(job, step, 0, NULL, NULL);
  assert_true(wait_until(says_idle, job, PERIOD_MS + LATE_MS));
}

JOB_TEST(a_flood_does_not_delay_it) {
  const cJSON *step = job_step(job, "yes", job->id, NULL);
  events_push(job, step, job->id);
  expect_steady(job, 7000);
  job_push_cancel(job, step);
  job_result(job);
}

JOB_TEST(commands_that_burn_do_not_delay_it) {
  const cJSON *step = job_script(
      job, "for i in 1 2 3 4; do while :; do :; done & done; echo up; while :; do :; done");
  events_push(job, step, "up");
  expect_steady(job, 7000);
  job_push_cancel(job, step);
  job_result(job);
}

static struct proxy *start_behind_proxy(struct job *job) {
  struct proxy *proxy = proxy_start(redis_server_port(job->server), NULL);
  job_use_port(job, proxy_port(proxy));
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "true", NULL));
  return proxy;
}

struct awaited {
  struct proxy *proxy;
  long connections;
};

static bool has_connections(void *context) {
  const struct awaited *awaited = context;
  return proxy_connections(awaited->proxy, RELAY_HEARTBEAT) >= awaited->connections;
}

/* What the agent holds cannot leave, and its command waits. */
JOB_TEST_NO_AGENT(output_that_nobody_takes_does_not_delay_it) {
  struct proxy *proxy = start_behind_proxy(job);
  assert_true(wait_until(has_connections, &(struct awaited){proxy, 1}, WAIT_BOUND_MS));
  const cJSON *step = job_step(job, "yes", job->id, NULL);
  events_push(job, step, job->id);
  proxy_deafen(proxy, RELAY_OUTBOX);
  expect_steady(job, 7000);
  proxy_stop(proxy);
}

JOB_TEST_NO_AGENT(a_dead_connection_does_not_end_it) {
  struct proxy *proxy = start_behind_proxy(job);
  assert_true(wait_until(has_connections, &(struct awaited){proxy, 1}, WAIT_BOUND_MS));
  proxy_deafen(proxy, RELAY_HEARTBEAT);
  (void)watch(job, LIFE_MS + PERIOD_MS, 0);
  assert_true(proxy_connections(proxy, RELAY_HEARTBEAT) > 1);
  expect_steady(job, 5000);
  job_shut_down(job);
  assert_true(is_gone(job));
  proxy_stop(proxy);
}

static long long of_connection(struct job *job) {
  redisReply *clients = job_ask(job, "CLIENT LIST");
  const char *name = strstr(clients->str, job_format(job, "name=sandbox:%s:heartbeat", job->id));
  long long id = 0;
  for (const char *line = clients->str; name != NULL && line < name; line = strchr(line, '\n') + 1)
    assert_int_equal(sscanf(line, "id=%lld", &id), 1);
  freeReplyObject(clients);
  return name != NULL ? id : 0;
}

static bool has_connection(void *context) {
  return of_connection(context) != 0;
}

/* Its other connections are there, and no new one is let in. */
JOB_TEST_NO_AGENT(without_a_connection_it_goes_with_what_the_agent_says) {
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "true", NULL));
  assert_true(wait_until(has_connection, job, WAIT_BOUND_MS));
  long long id = of_connection(job);
  job_do(job, "CONFIG SET maxclients 1");
  job_do(job, "CLIENT KILL ID %lld", id);
  (void)watch(job, LIFE_MS + PERIOD_MS, LIFE_MS - 3 * PERIOD_MS);
  assert_false(has_connection(job));
  job_do(job, "CONFIG SET maxclients 1000");
  assert_true(wait_until(has_connection, job, WAIT_BOUND_MS));
  expect_steady(job, 3000);
  assert_null(strstr(agent_process_log(job->agent), "not visible"));
  job_shut_down(job);
  expect_gone_for_good(job);
}

JOB_TEST(it_ends_with_a_shutdown) {
  job_run(job, job_step(job, "true", NULL));
  assert_true(is_there(job));
  job_shut_down(job);
  expect_gone_for_good(job);
}

JOB_TEST(it_ends_with_a_signal) {
  const cJSON *step = events_push_endless(job, job_sleep(job, 600));
  assert_true(is_there(job));
  job_stop_agent(job, SIGTERM);
  job_expect_answer(job, step, -1, "cancelled: the agent was stopped by SIGTERM", "up\n");
  expect_gone_for_good(job);
}

JOB_TEST(it_outlives_a_kill_by_its_time) {
  job_run(job, job_step(job, "true", NULL));
  job_kill_agent(job);
  assert_true(is_there(job));
  assert_true(wait_until(is_gone, job, LIFE_MS + LATE_MS));
}

/* Which forgets everything. */
JOB_TEST(it_comes_back_with_redis) {
  job_run(job, job_step(job, "true", NULL));
  for (int i = 0; i < 2; i++) {
    job_restart_server(job);
    assert_true(wait_until(is_there, job, WAIT_BOUND_MS));
    expect_steady(job, 3000);
  }
  job_shut_down(job);
  assert_true(is_gone(job));
}

JOB_TEST(who_takes_over_keeps_it) {
  job_run(job, job_step(job, "true", NULL));
  struct agent_process *first = job->agent;
  job->agent = NULL;
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "true", NULL));
  assert_int_equal(agent_process_wait(first, WAIT_BOUND_MS), 3);
  agent_process_free(first);
  assert_true(is_there(job));
  expect_steady(job, 5000);
  assert_int_equal((int)number(value(job), "Pid"), agent_process_pid(job->agent));
  job_shut_down(job);
  expect_gone_for_good(job);
}

/* It does not know yet that the job is another's. */
JOB_TEST(who_was_superseded_does_not_end_it) {
  job_run(job, job_step(job, "true", NULL));
  struct agent_process *first = job->agent;
  assert_int_equal(kill(agent_process_pid(first), SIGSTOP), 0);
  job->agent = NULL;
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "true", NULL));
  assert_int_equal(kill(agent_process_pid(first), SIGTERM), 0);
  assert_int_equal(kill(agent_process_pid(first), SIGCONT), 0);
  (void)agent_process_wait(first, WAIT_BOUND_MS);
  agent_process_free(first);
  assert_true(is_there(job));
  expect_steady(job, 5000);
  job_shut_down(job);
}

TEST_OVERLAP(7)
