/* Redis rejects MULTI: the agent executes nothing outside of a transaction. */

#include "tests/support/job.h"

static const char *const keys[] = {"in",      "events",    "results",  "inflight",
                                   "started", "committed", "heartbeat"};
enum { KEYS = sizeof keys / sizeof *keys };

/* The keys of an earlier agent: waiting steps, a started step, and results that the server has not
   read. */
static void leave_a_job(struct job *job) {
  job_do(job, "LPUSH sandbox:%s:in three", job->id);
  for (int i = 1; i <= 3; i++)
    job_do(job, "XADD sandbox:%s:events * data event-%d", job->id, i);
  job_do(job, "LPUSH sandbox:%s:results answer", job->id);
  job_do(job, "LPUSH sandbox:%s:inflight one two", job->id);
  job_do(job, "SET sandbox:%s:started one", job->id);
  job_do(job, "SET sandbox:%s:committed 1:00000000000000ff:7", job->id);
  job_do(job, "SET sandbox:%s:heartbeat alive", job->id);
}

/* The value and the expiry of a key. */
static const char *state_of(struct job *job, const char *key) {
  redisReply *dump = job_ask(job, "DUMP sandbox:%s:%s", job->id, key);
  char *text = job_format(job, "%lld ms ", job_ask_number(job, "PTTL sandbox:%s:%s", job->id, key));
  size_t length = strlen(text);
  char *state = calloc(1, length + 2 * dump->len + 1);
  assert_non_null(state);
  memcpy(state, text, length);
  for (size_t i = 0; i < dump->len; i++)
    (void)sprintf(state + length + 2 * i, "%02x", (unsigned char)dump->str[i]);
  freeReplyObject(dump);
  return job_own_text(job, state);
}

static void expect_exit_without_a_change(struct job *job, const char *message) {
  const char *before[KEYS];
  leave_a_job(job);
  for (int i = 0; i < KEYS; i++)
    before[i] = state_of(job, keys[i]);
  job_start_agent(job, NULL);
  job_expect_exit(job, 3);
  agent_process_wait_log(job->agent, message);
  for (int i = 0; i < KEYS; i++)
    if (strcmp(state_of(job, keys[i]), before[i]) != 0)
      job_fail(job, "%s was changed", keys[i]);
}

TEST(a_server_without_multi_stays_unchanged) {
  static const char *const without[] = {"--rename-command", "MULTI", "", NULL};
  struct job *job = job_new(redis_server_start(without));
  expect_exit_without_a_change(job, "refuses MULTI: ERR unknown command 'MULTI'");
  job_free(job);
}

JOB_TEST_NO_AGENT(a_user_without_multi_changes_nothing) {
  redis_server_make_user(job->redis, "somebody", "+multi");
  job->url =
      job_format(job, "redis://somebody:PASSWORD@127.0.0.1:%d", redis_server_port(job->server));
  expect_exit_without_a_change(job, "refuses MULTI: NOPERM: the user needs +multi");
}

/* Redis applies changes of permissions to open connections. The next agent answers the started
   step, once. */
JOB_TEST_NO_AGENT(losing_the_permission_for_multi_ends_the_agent) {
  redis_server_make_user(job->redis, "somebody", NULL);
  job->url =
      job_format(job, "redis://somebody:PASSWORD@127.0.0.1:%d", redis_server_port(job->server));
  job_start_agent(job, NULL);
  /* Otherwise the heartbeat could meet the error first. */
  job_wait_text(job, "CLIENT LIST", job_format(job, "name=sandbox:%s:heartbeat ", job->id));
  job_run(job, job_step(job, "true", NULL));
  job_do(job, "ACL SETUSER somebody -multi");
  const cJSON *step = job_push_echo(job, "never printed");
  job_expect_exit(job, 3);
  agent_process_wait_log(job->agent, "redis refuses MULTI: NOPERM");
  job_do(job, "ACL SETUSER somebody +multi");
  job_start_agent(job, NULL);
  job_expect_answer(job, step, -1, "interrupted: the agent ended while this step was running",
                    NULL);
  job_shut_down(job);
  assert_int_equal(job_length(job, "results"), 0);
  /* No EXEC was sent without its MULTI. */
  const char *exec = strstr(job_ask_text(job, "INFO commandstats"), "cmdstat_exec:");
  assert_non_null(exec);
  const char *failed = strstr(exec, "failed_calls="); /* since 6.2 */
  if (failed != NULL && strncmp(failed, "failed_calls=0\r", 15) != 0)
    job_fail(job, "%.*s", (int)strcspn(exec, "\r"), exec);
}
