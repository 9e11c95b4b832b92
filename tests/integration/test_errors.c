/* Errors of Redis: the agent waits while they are temporary, and names permanent ones and exits. */

#include "tests/support/job.h"
#include "tests/support/marks.h"

/* --- temporary errors --- */

/* Starts a step that prints when gate 1 opens, and ends when gate 2 does. */
static const cJSON *start_talker(struct job *job) {
  return job_push_until(job, marks_step(job, "echo up; gate 1; echo down; exec 2>&1; gate 2"),
                        "up");
}

static long long connections(struct job *job) {
  static const char field[] = "total_connections_received:";
  return strtoll(strstr(job_ask_text(job, "INFO stats"), field) + strlen(field), NULL, 10);
}

struct attempts {
  struct job *job;
  long long before;
};

static bool has_tried_often(void *context) {
  const struct attempts *attempts = context;
  return connections(attempts->job) >= attempts->before + 4;
}

/* The step prints while Redis refuses to take it, and is delivered when Redis accepts writes again.
   Until then the agent retries often, and has logged the error once. */
static void expect_waited_out(struct job *job, const cJSON *talker, const char *error,
                              const char *lift) {
  struct attempts attempts = {.job = job, .before = connections(job)};
  marks_open_gate(job, "1");
  if (!wait_until(has_tried_often, &attempts, WAIT_BOUND_MS))
    job_fail(job, "the agent does not retry");
  const char *line = job_format(job,
                                "WARN  job=%s redis outbox: 127.0.0.1:%d refuses for now:"
                                " %s",
                                job->id, redis_server_port(job->server), error);
  int warnings = agent_process_count_log(job->agent, line);
  if (warnings != 1)
    job_fail(job, "%d warnings of %s", warnings, error);
  job_do(job, lift);
  marks_open_gate(job, "2");
  job_expect_answer(job, talker, 0, NULL, "up\ndown\n");
  assert_string_equal(job_lines(job, talker, "stdout"), "up\ndown\n");
  agent_process_wait_log(job->agent, "outbox: connected to");
  assert_int_equal(agent_process_count_log(job->agent, "outbox: connected to"), 1);
  job_expect_to_go_on(job);
  job_shut_down(job);
}

/* A result of more than a mebibyte: JSON needs six bytes for each of its bytes. */
static const cJSON *push_large_result(struct job *job) {
  const cJSON *step = job_script(job, "head -c 500000 /dev/zero | tr '\\0' '\\1' | fold -w 1000");
  job_push(job, step);
  return step;
}

JOB_TEST(a_result_beyond_a_limit_of_redis_ends_the_agent) {
  job->schema_version = 2;
  job_do(job, "CONFIG SET proto-max-bulk-len 1048576");
  const cJSON *step = push_large_result(job);
  job_expect_exit(job, 3);
  agent_process_wait_log(job->agent,
                         job_format(job,
                                    "redis refuses LPUSH sandbox:%s:results: ERR Protocol error: "
                                    "invalid bulk length",
                                    job->id));
  agent_process_wait_log(
      job->agent, job_format(job, "undelivered result: {\"schemaVersion\":2,\"stepId\":\"%s\"",
                             job_text(step, "stepId")));
}

/* Redis closes the connection and gives no error. */
JOB_TEST(the_log_hints_at_a_limit_that_redis_does_not_name) {
  job_do(job, "CONFIG SET client-query-buffer-limit 1048576");
  const cJSON *step = push_large_result(job);
  agent_process_wait_log(job->agent, "3 times in the middle of the same request");
  job_do(job, "CONFIG SET client-query-buffer-limit 1073741824");
  assert_int_equal(cJSON_GetObjectItem(job_result_of(job, step), "exitCode")->valueint, 0);
}

JOB_TEST(the_agent_waits_while_redis_is_out_of_memory) {
  const cJSON *talker = start_talker(job);
  job_do(job, "CONFIG SET maxmemory 1");
  expect_waited_out(job, talker, "OOM", "CONFIG SET maxmemory 0");
}

/* A replica whose master does not exist keeps its data. */
JOB_TEST(the_agent_waits_while_redis_is_a_replica) {
  const cJSON *talker = start_talker(job);
  job_do(job, "REPLICAOF 127.0.0.1 1");
  expect_waited_out(job, talker, "READONLY", "REPLICAOF NO ONE");
}

JOB_TEST(the_agent_waits_while_redis_cannot_save) {
  const cJSON *talker = start_talker(job);
  assert_int_equal(mkdir(job_path(job, "dump.rdb"), 0700),
                   0); /* Redis cannot replace a directory */
  job_do(job, "CONFIG SET save %s", "3600 1");
  freeReplyObject(redisCommand(job->redis, "BGSAVE")); /* Redis may also be unable to fork */
  job_wait_text(job, "INFO persistence", "rdb_last_bgsave_status:err");
  expect_waited_out(job, talker, "MISCONF", "CONFIG SET stop-writes-on-bgsave-error no");
}

/* Redis needs a millisecond to load each key, and answers meanwhile. */
TEST(the_agent_waits_while_redis_loads, NULL, job_teardown) {
  static const char *const slow[] = {"--key-load-delay", "1000",
                                     "--loading-process-events-interval-bytes", "1024", NULL};
  struct job *job = *state = job_new(redis_server_start(slow));
  job_start_agent(job, NULL);
  const cJSON *talker = start_talker(job);
  job_do(job, "EVAL %s 0",
         "for i = 1, 1500 do redis.call('SET', 'filler:' .. i, string.rep('x', 500)) end");
  job_do(job, "SAVE");
  redis_server_kill(job->server);
  marks_open_gate(job, "1");
  redis_server_restart(job->server);
  job_reconnect(job);
  marks_open_gate(job, "2");
  job_expect_answer(job, talker, 0, NULL, "up\ndown\n");
  const char *log = agent_process_log(job->agent);
  assert_non_null(strstr(log, "outbox: connected to"));
  assert_null(strstr(log, "ERROR"));
  job_shut_down(job);
}

JOB_TEST_NO_AGENT(the_agent_waits_for_redis_at_startup) {
  job_do(job, "CONFIG SET maxmemory 1");
  job_start_agent(job, NULL);
  agent_process_wait_log(job->agent, "attempt 2");
  job_do(job, "CONFIG SET maxmemory 0");
  job_run(job, job_step(job, "true", NULL));
  assert_non_null(strstr(agent_process_log(job->agent), "OOM"));
  job_shut_down(job);
}

/* --- permanent errors --- */

static void expect_end(struct job *job, const char *command, const char *key, const char *error) {
  job_expect_exit(job, 3);
  const char *refused =
      job_format(job, "refuses %s sandbox:%s:%s: %s", command, job->id, key, error);
  if (strstr(agent_process_log(job->agent), refused) == NULL)
    job_fail(job, "the log lacks `%s`", refused);
}

JOB_TEST_NO_AGENT(the_agent_names_a_key_of_another_type_at_startup) {
  static const char *const keys[][2] = {{"LLEN", "in"},      {"XLEN", "events"},
                                        {"LLEN", "results"}, {"LLEN", "inflight"},
                                        {"GET", "started"},  {"GET", "committed"}};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    job_do(job, "SADD sandbox:%s:%s member", job->id, keys[i][1]);
    job_start_agent(job, NULL);
    expect_end(job, keys[i][0], keys[i][1], "WRONGTYPE");
    job_expect_keys(job, keys[i][1], NULL); /* nothing was changed */
    job_do(job, "DEL sandbox:%s:%s", job->id, keys[i][1]);
  }
}

/* The output of the step meets an error, and the agent exits. */
static void expect_end_of_talker(struct job *job, const char *command, const char *key,
                                 const char *error) {
  marks_open_gate(job, "1");
  marks_open_gate(job, "2");
  expect_end(job, command, key, error);
  unlink(job_path(job, "gate1"));
  unlink(job_path(job, "gate2"));
  job_do(job, "FLUSHALL");
}

/* The key changes its type while a step runs; `command` is the first one that fails. */
static const cJSON *expect_end_of_runner(struct job *job, const char *key, const char *command) {
  job_start_agent(job, NULL);
  const cJSON *talker = start_talker(job);
  job_do(job, "EVAL %s 1 sandbox:%s:%s",
         "redis.call('DEL', KEYS[1]) redis.call('SADD', KEYS[1], 'member')", job->id, key);
  expect_end_of_talker(job, command, key, "WRONGTYPE");
  return talker;
}

JOB_TEST_NO_AGENT(a_key_that_changes_its_type_ends_the_agent) {
  expect_end_of_runner(job, "events", "XADD");
  expect_end_of_runner(job, "inflight", "LREM");
  expect_end_of_runner(job, "committed", "GET");
}

/* A BLMOVE that waits does not notice the new type; the next one does. */
JOB_TEST(an_input_list_that_changes_its_type_ends_the_agent) {
  job_run(job, job_step(job, "true", NULL));
  job_do(job, "SADD sandbox:%s:in member", job->id);
  expect_end(job, "LLEN", "in", "WRONGTYPE");
}

JOB_TEST_NO_AGENT(a_result_that_redis_refuses_is_in_the_log) {
  const cJSON *talker = expect_end_of_runner(job, "results", "LPUSH");
  const char *lost = strstr(agent_process_log(job->agent), "undelivered result: {");
  if (lost == NULL || strstr(lost, job_text(talker, "stepId")) == NULL)
    job_fail(job, "the result is not in the log");
}

/* A command, and the key as the agent names it. */
struct refused {
  const char *command;
  const char *key;
};

/* A user whose permissions are revoked one by one. */
static void start_as_clerk(struct job *job) {
  job->url = job_format(job, "redis://clerk:word@127.0.0.1:%d", redis_server_port(job->server));
  job_start_agent(job, NULL);
}

JOB_TEST_NO_AGENT(an_agent_that_trims_at_once_does_not_need_xtrim) {
  job_do(job, "ACL SETUSER clerk reset on >word ~* &* +@all -xtrim");
  job->url = job_format(job, "redis://clerk:word@127.0.0.1:%d", redis_server_port(job->server));
  job_start_agent(job, "--events-keep-bytes", "0", NULL);
  job_run(job, job_step(job, "true", NULL));
}

JOB_TEST_NO_AGENT(a_revoked_permission_ends_the_agent) {
  static const struct refused rows[] = {
      {"XADD", "events"}, {"LPUSH", "results"}, {"LREM", "inflight"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    job_do(job, "ACL SETUSER clerk reset on >word ~* &* +@all");
    start_as_clerk(job);
    (void)start_talker(job);
    job_do(job, "ACL SETUSER clerk -%s", rows[i].command);
    expect_end_of_talker(job, rows[i].command, rows[i].key, "NOPERM");
  }
}

/* The agent does not try to delete the key, which would be a second error. */
JOB_TEST_NO_AGENT(a_refused_heartbeat_ends_the_agent_with_one_error) {
  job_do(job, "ACL SETUSER clerk reset on >word ~* &* +@all");
  start_as_clerk(job);
  job_run(job, job_step(job, "true", NULL));
  job_do(job, "ACL SETUSER clerk resetkeys ~sandbox:*:in ~sandbox:*:inflight ~sandbox:*:committed "
              "~sandbox:*:events ~sandbox:*:results ~sandbox:*:started");
  job_expect_exit(job, 3);
  const char *log = agent_process_log(job->agent);
  const char *refused =
      job_format(job, "redis refuses the heartbeat sandbox:%s:heartbeat", job->id);
  const char *error = strstr(log, " ERROR ");
  if (error == NULL || strstr(error, refused) == NULL || strstr(error + 1, " ERROR ") != NULL)
    job_fail(job, "not one error `%s`", refused);
  job_expect_keys(job, "committed", "events", "heartbeat", NULL);
}

TEST_OVERLAP(3)
