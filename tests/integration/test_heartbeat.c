/* The key `heartbeat`, which shows that the agent is alive even while the agent or Redis is busy.
   */

#include "tests/support/job.h"
#include "tests/support/proxy.h"
#include "wire/version.h"

enum { LIFE_MS = 10000, PERIOD_MS = 2000, LATE_MS = 1000 };

/* Returns the time to live of the key in milliseconds, or -2 if the key does not exist. */
static long long time_left(struct job *job) {
  return job_ask_number(job, "PTTL sandbox:%s:heartbeat", job->id);
}

static const char *text(struct job *job) {
  return job_ask_text(job, "GET sandbox:%s:heartbeat", job->id);
}

static bool is_there(void *context) {
  return time_left(context) >= 0;
}

static bool is_gone(void *context) {
  return time_left(context) == -2;
}

/* Counts how often the key was renewed. A renewal raises its time to live. While the test does not
   run, because the machine is busy, the agent may not run either. */
struct watch {
  struct job *job;
  long long floor; /* the smallest permitted time to live, in milliseconds */
  long long left;
  double asked_ms; /* the time of the last look; 0: there was none */
  double lost_ms;  /* for which the test did not run since the last renewal */
  int beats, expected;
};

static bool count_beats(void *context) {
  enum { PAUSE_MS = 5 }; /* of wait_until */
  struct watch *self = context;
  long long left = time_left(self->job);
  double now_ms = wait_exact_ms(), lost_ms = now_ms - self->asked_ms - PAUSE_MS;
  if (self->asked_ms == 0) /* a renewal that is late by now was not watched */
    lost_ms = left < self->floor ? LIFE_MS : 0;
  self->lost_ms += lost_ms > 0 ? lost_ms : 0;
  if (left < 0 || (double)left + self->lost_ms < (double)self->floor)
    job_fail(self->job, "the heartbeat has %lld ms to live", left);
  if (self->asked_ms != 0 && left > self->left) {
    self->beats++;
    self->lost_ms = 0;
  }
  self->left = left;
  self->asked_ms = now_ms;
  return self->beats == self->expected;
}

static void expect_beats(struct job *job, int count, long long floor) {
  struct watch watch = {.job = job, .floor = floor, .expected = count};
  if (!wait_until(count_beats, &watch, count * PERIOD_MS + WAIT_BOUND_MS))
    job_fail(job, "%d beats, not %d", watch.beats, count);
}

/* Expects `count` renewals, none of which is late. */
static void expect_steady(struct job *job, int count) {
  expect_beats(job, count, LIFE_MS - PERIOD_MS - LATE_MS);
}

static long long of_connection(struct job *job) {
  const char *clients = job_ask_text(job, "CLIENT LIST");
  const char *name = strstr(clients, job_format(job, "name=sandbox:%s:heartbeat", job->id));
  long long id = 0;
  for (const char *line = clients; name != NULL && line < name; line = strchr(line, '\n') + 1)
    assert_int_equal(sscanf(line, "id=%lld", &id), 1);
  return name != NULL ? id : 0;
}

static bool has_connection(void *job) {
  return of_connection(job) != 0;
}

static bool has_none(void *job) {
  return of_connection(job) == 0;
}

/* After the connection of the heartbeat has closed, nothing can set the key again. */
static void expect_gone_for_good(struct job *job) {
  assert_true(wait_until(has_none, job, WAIT_BOUND_MS));
  assert_true(is_gone(job));
}

static double member(struct job *job, const char *name) {
  cJSON *beat = job_own(job, cJSON_Parse(text(job)));
  return cJSON_GetNumberValue(cJSON_GetObjectItem(beat, name));
}

static bool counts_all(void *context) {
  struct job *job = context;
  static const char all[] = "\"Steps\":{\"ok\":2,\"failed\":3,\"timedOut\":1,\"cancelled\":1},";
  return strstr(text(job), all) != NULL;
}

JOB_TEST(the_heartbeat_counts_steps_and_shows_resource_usage) {
  job_run(job, job_script(job, "true"));
  job_run(job, job_script(job, "true"));
  job_run(job, job_script(job, "exit 1"));
  job_run(job, job_step(job, "no-such-command", NULL));
  job_push_json(job, "{'schemaVersion':1,'stepId':'1','kind':'fly'}");
  job_result(job);
  cJSON *late = job_script(job, "exec sleep 600.231");
  cJSON_AddNumberToObject(late, "timeoutSeconds", 1);
  job_run(job, late);
  const cJSON *step = job_push_until(job, job_script(job, "echo up; exec sleep 600.232"), "up");
  job_push_cancel(job, step);
  job_result_of(job, step);
  assert_true(wait_until(counts_all, job, WAIT_BOUND_MS));
  assert_int_equal(member(job, "HeldBytes"), 0);
  assert_int_equal(member(job, "Reconnects"), 0);
  assert_true(member(job, "MemoryBytes") > 0);
  assert_true(member(job, "MemoryPeakBytes") >= member(job, "MemoryBytes"));
  assert_true(member(job, "CpuSeconds") > 0);
}

JOB_TEST(the_heartbeat_matches_the_protocol) {
  assert_true(wait_until(is_there, job, WAIT_BOUND_MS));
  const char *beat = text(job);
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  long long ts = 0;
  assert_int_equal(sscanf(beat, "{%*[^:]:%lld,", &ts), 1);
  const char *beginning =
      job_json(job,
               "{'Ts':%lld,'Pid':%d,'StepInFlight':false,'Version':'" SANDBOX_VERSION
               "','Protocol':'1-2','Features':[",
               ts, (int)agent_process_pid(job->agent));
  assert_int_equal(strncmp(beat, beginning, strlen(beginning)), 0);
  assert_non_null(strstr(beat, "\"end\""));
  long long age_ms = (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000 - ts;
  assert_in_range(age_ms + 1000, 0, 1000 + PERIOD_MS + LATE_MS);
  assert_in_range(time_left(job), 1, LIFE_MS);
  const cJSON *parsed = job_own(job, cJSON_Parse(beat));
  const char *directory = job_format(job, "%s\n", job_text(parsed, "WorkingDirectory"));
  job_expect_result(job, job_run(job, job_step(job, "pwd", NULL)), 0, NULL, directory);
}

/* MONITOR shows the commands in the order in which Redis executes them. */
JOB_TEST_NO_AGENT(the_heartbeat_is_set_before_a_step_is_taken) {
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

static bool says_in_flight(void *job) {
  return strstr(text(job), quoted("'StepInFlight':true")) != NULL;
}

static bool says_idle(void *job) {
  return strstr(text(job), quoted("'StepInFlight':false")) != NULL;
}

/* The value may be one period older than the SET that sends it, so the second one shows the change.
   */
JOB_TEST(the_heartbeat_shows_whether_a_step_runs) {
  const cJSON *step = job_push_endless(job, job_sleep(job, 600));
  expect_steady(job, 2);
  assert_true(says_in_flight(job));
  job_push_cancel(job, step);
  job_expect_answer(job, step, -1, "cancelled: by a cancel step", "up\n");
  /* The message has made one renewal earlier, and the next one follows up to two periods later. */
  expect_beats(job, 2, LIFE_MS - 2 * PERIOD_MS - LATE_MS);
  assert_true(says_idle(job));
}

JOB_TEST(a_flood_of_output_does_not_delay_the_heartbeat) {
  const cJSON *step = job_step(job, "yes", job->id, NULL);
  job_push_until(job, step, job->id);
  expect_steady(job, 3);
  job_push_cancel(job, step);
  job_result(job);
}

JOB_TEST(busy_commands_do_not_delay_the_heartbeat) {
  const cJSON *step = job_script(
      job, "for i in 1 2 3 4; do while :; do :; done & done; echo up; while :; do :; done");
  job_push_until(job, step, "up");
  expect_steady(job, 3);
  job_push_cancel(job, step);
  job_result(job);
}

static bool has_its_connection(void *proxy) {
  return proxy_connections(proxy, RELAY_HEARTBEAT) > 0;
}

static struct proxy *start_behind_proxy(struct job *job) {
  struct proxy *proxy = proxy_start(redis_server_port(job->server), NULL);
  job_use_port(job, proxy_port(proxy));
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "true", NULL));
  assert_true(wait_until(has_its_connection, proxy, WAIT_BOUND_MS));
  return proxy;
}

/* Redis does not read the queued output, so the command blocks. */
JOB_TEST_NO_AGENT(blocked_output_does_not_delay_the_heartbeat) {
  struct proxy *proxy = start_behind_proxy(job);
  const cJSON *step = job_step(job, "yes", job->id, NULL);
  job_push_until(job, step, job->id);
  proxy_deafen(proxy, RELAY_OUTBOX);
  expect_steady(job, 3);
  proxy_stop(proxy);
}

JOB_TEST_NO_AGENT(a_silent_connection_does_not_end_the_heartbeat) {
  struct proxy *proxy = start_behind_proxy(job);
  proxy_deafen(proxy, RELAY_HEARTBEAT);
  for (int beats = 0; beats < 10 && proxy_connections(proxy, RELAY_HEARTBEAT) == 1; beats++)
    expect_beats(job, 1, 0); /* over the connection of the outbox */
  assert_true(proxy_connections(proxy, RELAY_HEARTBEAT) > 1);
  expect_steady(job, 2);
  job_shut_down(job);
  assert_true(is_gone(job));
  proxy_stop(proxy);
}

/* The other connections of the agent remain open, and Redis accepts no new one. */
JOB_TEST(without_its_connection_the_heartbeat_uses_another_one) {
  job_run(job, job_step(job, "true", NULL));
  assert_true(wait_until(has_connection, job, WAIT_BOUND_MS));
  long long id = of_connection(job);
  job_do(job, "CONFIG SET maxclients 1");
  job_do(job, "CLIENT KILL ID %lld", id);
  expect_beats(job, 3, LIFE_MS - 3 * PERIOD_MS);
  assert_false(has_connection(job));
  job_do(job, "CONFIG SET maxclients 1000");
  assert_true(wait_until(has_connection, job, WAIT_BOUND_MS));
  expect_steady(job, 1);
  assert_null(strstr(agent_process_log(job->agent), "not visible"));
  job_shut_down(job);
  expect_gone_for_good(job);
}

JOB_TEST(the_heartbeat_expires_after_the_agent_is_killed) {
  job_run(job, job_step(job, "true", NULL));
  job_kill_agent(job);
  assert_true(is_there(job));
  assert_true(wait_until(is_gone, job, LIFE_MS + LATE_MS));
}

/* The restarted Redis is empty. */
JOB_TEST(the_heartbeat_returns_when_redis_restarts) {
  job_run(job, job_step(job, "true", NULL));
  for (int i = 0; i < 2; i++) {
    job_restart_server(job);
    assert_true(wait_until(is_there, job, WAIT_BOUND_MS));
    expect_steady(job, 1);
  }
  job_shut_down(job);
  assert_true(is_gone(job));
}

JOB_TEST(an_agent_that_takes_over_keeps_the_heartbeat) {
  job_run(job, job_step(job, "true", NULL));
  struct agent_process *first = job_start_second_agent(job);
  job_run(job, job_step(job, "true", NULL));
  assert_int_equal(agent_process_wait(first, WAIT_BOUND_MS), 3);
  agent_process_free(first);
  assert_true(is_there(job));
  expect_steady(job, 2);
  assert_non_null(
      strstr(text(job), job_json(job, "'Pid':%d,", (int)agent_process_pid(job->agent))));
  job_shut_down(job);
  expect_gone_for_good(job);
}

/* The first agent is stopped, so it does not know that another agent owns the job. */
JOB_TEST(a_superseded_agent_does_not_delete_the_heartbeat) {
  job_run(job, job_step(job, "true", NULL));
  assert_int_equal(kill(agent_process_pid(job->agent), SIGSTOP), 0);
  struct agent_process *first = job_start_second_agent(job);
  job_run(job, job_step(job, "true", NULL));
  assert_int_equal(kill(agent_process_pid(first), SIGTERM), 0);
  assert_int_equal(kill(agent_process_pid(first), SIGCONT), 0);
  (void)agent_process_wait(first, WAIT_BOUND_MS);
  agent_process_free(first);
  assert_true(is_there(job));
  expect_steady(job, 2);
  job_shut_down(job);
}

TEST_OVERLAP(7)
