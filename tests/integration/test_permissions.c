/* The ACL user in docs/redis.md has exactly the permissions that the agent needs. */

#include "tests/support/job.h"

/* A database other than 0, so that the agent must also use SELECT. */
enum { DATABASE = 3 };

static void start_as(struct job *job, const char *name) {
  job->url = job_format(job, "redis://%s:PASSWORD@127.0.0.1:%d/%d", name,
                        redis_server_port(job->server), DATABASE);
  job_start_agent(job, NULL);
}

static bool are_named(void *context) {
  struct job *job = context;
  const char *clients = job_ask_text(job, "CLIENT LIST");
  return strstr(clients, job_format(job, "name=sandbox:%s:in ", job->id)) != NULL &&
         strstr(clients, job_format(job, "name=sandbox:%s:out ", job->id)) != NULL &&
         strstr(clients, job_format(job, "name=sandbox:%s:heartbeat ", job->id)) != NULL;
}

/* Whether the connection that waits for a step has no name. It would have its name by then. */
static bool is_unnamed(struct job *job) {
  const char *waiting = strstr(job_ask_text(job, "CLIENT LIST"), " cmd=blmove ");
  if (waiting == NULL)
    return false;
  while (*waiting != '\n' && strncmp(waiting, " name=", 6) != 0)
    waiting--;
  return strncmp(waiting, " name= ", 7) == 0;
}

static bool has_left_or_connected(void *context) {
  struct job *job = context;
  return !agent_process_is_running(job->agent) || are_named(job) || is_unnamed(job);
}

static bool has_left_or_answered(void *context) {
  struct job *job = context;
  return !agent_process_is_running(job->agent) || job_length(job, "results") > 0;
}

/* Whether the agent can connect, run a step and shut down. */
static bool works(struct job *job) {
  job_do(job, "SELECT %d", DATABASE);
  job_do(job, "FLUSHALL");
  job_push(job, job_step(job, "echo", "hello", NULL));
  start_as(job, "somebody");
  assert_true(wait_until(has_left_or_answered, job, WAIT_BOUND_MS));
  assert_true(wait_until(has_left_or_connected, job, WAIT_BOUND_MS));
  if (!agent_process_is_running(job->agent) || !are_named(job))
    return false;
  job_expect_result(job, job_result(job), 0, NULL, "hello\n");
  job_shut_down(job);
  return true;
}

JOB_TEST_NO_AGENT(the_documented_acl_is_sufficient) {
  redis_server_make_user(job->redis, "somebody", NULL);
  if (!works(job))
    job_fail(job, "the user of docs/redis.md cannot work");
}

/* Whether this test does not need the permission: a cancel of a waiting step does
   (test_control.c). */
static bool is_for_later(const char *rule) {
  return strcmp(rule, "+lrange") == 0;
}

/* The agent does not check these at startup. The error message of Redis names the command. */
static bool is_found_at_work(const char *rule) {
  return strcmp(rule, "+exec") == 0 || strcmp(rule, "+blmove") == 0;
}

static void expect_rule(struct job *job, const char *rule) {
  const char *text = job_format(job, "NOPERM: the user needs %s\n", rule);
  if (strstr(agent_process_log(job->agent), text) == NULL)
    job_fail(job, "the log lacks %s", rule);
}

/* If an ACL lists keys one by one, the error of Redis does not name the missing key, but the agent
   does. */
JOB_TEST_NO_AGENT(a_missing_key_is_named) {
  static const char *const keys[] = {"in",      "events",    "results", "inflight",
                                     "started", "committed", "control", "heartbeat"};
  enum { KEYS = sizeof keys / sizeof *keys };
  redis_server_make_user(job->redis, "somebody", "~sandbox:*");
  for (int missing = KEYS; missing-- > 0;) {
    job_do(job, "ACL SETUSER somebody resetkeys");
    for (int i = 0; i < KEYS; i++)
      if (i != missing)
        job_do(job, "ACL SETUSER somebody ~sandbox:%s:%s", job->id, keys[i]);
    start_as(job, "somebody");
    job_expect_exit(job, 3);
    expect_rule(job, job_format(job, "~sandbox:%s:%s", job->id, keys[missing]));
  }
  job_do(job, "ACL SETUSER somebody ~sandbox:%s:heartbeat ~sandbox:%s:in", job->id, job->id);
  assert_true(works(job));
}

JOB_TEST_NO_AGENT(each_rule_of_the_documented_acl_is_necessary) {
  size_t count;
  char **rules = redis_server_user_rules(&count);
  assert_true(count > 4);
  assert_string_equal(rules[0], "reset");
  for (size_t i = 1; i < count; i++) {
    if (is_for_later(rules[i]))
      continue;
    redis_server_make_user(job->redis, "somebody", rules[i]);
    if (works(job))
      job_fail(job, "%s is not needed", rules[i]);
    /* Each missing rule is logged, except the one for CLIENT SETNAME, which is optional. */
    if (strcmp(rules[i], "+client|setname") != 0) {
      job_expect_exit(job, 3);
      if (rules[i][0] == '+' && !is_found_at_work(rules[i]))
        expect_rule(job, rules[i]);
      else if (rules[i][0] == '+' || rules[i][0] == '~')
        assert_non_null(strstr(agent_process_log(job->agent), "NOPERM"));
    }
  }
  redis_server_free_rules(rules, count);
}

/* The user cannot access the keys of other programs. */
JOB_TEST_NO_AGENT(the_documented_acl_protects_other_keys) {
  redis_server_make_user(job->redis, "somebody", NULL);
  job_do(job, "SET other secret");
  redisContext *redis = redis_server_connect(job->server);
  freeReplyObject(redisCommand(redis, "AUTH somebody PASSWORD"));
  static const char *const refused[] = {
      "GET other",   "DEL other",     "KEYS *",
      "FLUSHALL",    "ACL LIST",      "CONFIG GET maxmemory",
      "CLIENT LIST", "EVAL return 0", "SADD agentsmith:runs:active r"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    redisReply *reply = redisCommand(redis, refused[i]);
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_int_equal(strncmp(reply->str, "NOPERM", 6), 0);
    freeReplyObject(reply);
  }
  redisFree(redis);
}
