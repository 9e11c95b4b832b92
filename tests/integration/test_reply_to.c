/* A step with `replyTo` gets its result in a list of its own. */

#include "tests/support/job.h"

static const cJSON *step_with(struct job *job, const char *reply_to, const char *line) {
  cJSON *step = job_step(job, "echo", line, NULL);
  cJSON_AddStringToObject(step, "replyTo", reply_to);
  return step;
}

/* The next result in the list of this replyTo ("" stands for `results`) must be this step's. */
static const cJSON *expect_reply(struct job *job, const char *reply_to, const char *step_id,
                                 int exit_code, const char *message) {
  const char *list = reply_to[0] != '\0' ? job_format(job, "results:%s", reply_to) : "results";
  job_wait_length(job, list, 1);
  const char *text = job_ask_text(job, "RPOP sandbox:%s:%s", job->id, list);
  const cJSON *result = job_own(job, cJSON_Parse(text));
  if (strcmp(job_text(result, "stepId"), step_id) != 0)
    job_fail(job, "%s has the result of %s", list, job_text(result, "stepId"));
  assert_int_equal((int)job_number(result, "exitCode"), exit_code);
  job_expect_part(job, result, "errorMessage", message);
  return result;
}

JOB_TEST(each_result_goes_to_the_list_that_its_step_names) {
  const cJSON *first = step_with(job, "a", "1"), *second = step_with(job, "b.C_9-", "2");
  job_push(job, first);
  job_push(job, second);
  job_expect_result(job, job_run(job, job_step(job, "echo", "3", NULL)), 0, NULL, "3\n");
  expect_reply(job, "a", job_text(first, "stepId"), 0, "");
  expect_reply(job, "b.C_9-", job_text(second, "stepId"), 0, "");
}

/* Nobody may ever read such a list, so it expires even if the other keys do not. */
JOB_TEST_NO_AGENT(the_list_expires_after_an_hour_at_most) {
  static const char *const rows[][2] = {{"0", "3600"}, {"86400", "3600"}, {"60", "60"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *name = job_format(job, "t%zu", i);
    const long long most = strtoll(rows[i][1], NULL, 10);
    job_start_agent(job, "--key-ttl", rows[i][0], NULL);
    job_push(job, step_with(job, name, "1"));
    job_wait_length(job, job_format(job, "results:%s", name), 1);
    assert_in_range(job_ask_number(job, "TTL sandbox:%s:results:%s", job->id, name), most / 2,
                    most);
    job_shut_down(job);
  }
}

/* Also a step that does not run, and one whose agent is gone. */
JOB_TEST(every_answer_goes_to_the_list) {
  job_push_json(job, "{'stepId':'rejected','replyTo':'a','command':'true','env':1}");
  expect_reply(job, "a", "rejected", -1, "env: expected an object");
  job_push_json(job, "{'stepId':'unknown','replyTo':'a','kind':'other'}");
  expect_reply(job, "a", "unknown", -1, "does not know the step kind");
  cJSON *running = job_script(job, "echo up; exec sleep 600");
  cJSON_AddStringToObject(running, "replyTo", "a");
  job_push_until(job, running, "up");
  const cJSON *waiting = step_with(job, "b", "never");
  job_push(job, waiting);
  job_push_cancel(job, waiting);
  expect_reply(job, "b", job_text(waiting, "stepId"), -1, "cancelled");
  job_kill_agent(job);
  job_start_agent(job, NULL);
  expect_reply(job, "a", job_text(running, "stepId"), -1, "interrupted");
  assert_int_equal(job_length(job, "results"), 0);
}

JOB_TEST(an_invalid_name_is_answered_in_results) {
  static const char *const rows[][2] = {
      {"''", "a non-empty string, got an empty string"},
      {"1", "a string, got a number"},
      {"'a:b'", "only letters, digits"},
      {"'in'", "not the end of a key"},
      {"'heartbeat'", "not the end of a key"},
      {"'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'", "at most 64 bytes"},
      {"'a','replyTo':'b'", "expected once, got it twice"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    job_push_json(job, job_format(job, "{'stepId':'s','command':'true','replyTo':%s}", rows[i][0]));
    expect_reply(job, "", "s", -1, "replyTo: ");
  }
  job_push_json(job, "{'replyTo':'a','stepId':'s'");
  expect_reply(job, "", "s", -1, "payload: ");
}

/* Either before the transaction, because the user has no right, or inside it, because the key has
   another type. */
JOB_TEST_NO_AGENT(a_result_stays_in_results_if_redis_refuses_the_list) {
  job_do(job, "ACL SETUSER limited on >p ~sandbox:%s:* +@all", job->id);
  job->url = job_format(job, "redis://limited:p@127.0.0.1:%d", redis_server_port(job->server));
  job_start_agent(job, NULL);
  job_do(job, "SET sandbox:%s:results:ok text", job->id);
  const cJSON *wrong_type = step_with(job, "ok", "1"), *denied = step_with(job, "denied", "2");
  job_push(job, wrong_type);
  expect_reply(job, "", job_text(wrong_type, "stepId"), 0, "");
  job_do(job, "ACL SETUSER limited resetkeys ~sandbox:%s:[ehcs]* ~sandbox:%s:in*", job->id,
         job->id);
  job_do(job, "ACL SETUSER limited ~sandbox:%s:results ~sandbox:%s:results:ok", job->id, job->id);
  job_push(job, denied);
  expect_reply(job, "", job_text(denied, "stepId"), 0, "");
  assert_int_equal(cJSON_GetArraySize(job_events(job, denied)), 3);
  job_do(job, "DEL sandbox:%s:results:ok", job->id);
  const cJSON *good = step_with(job, "ok", "3");
  job_push(job, good);
  expect_reply(job, "ok", job_text(good, "stepId"), 0, "");
  agent_process_wait_log(job->agent, ":results:ok: WRONGTYPE");
  agent_process_wait_log(job->agent, ":results:denied: NOPERM");
}

/* At startup, the log says so, and no result is moved. */
JOB_TEST_NO_AGENT(without_the_right_at_startup_the_feature_is_not_offered) {
  job_do(job, "ACL SETUSER limited on >p ~sandbox:%s:[ehcs]* ~sandbox:%s:in* +@all", job->id,
         job->id);
  job_do(job, "ACL SETUSER limited ~sandbox:%s:results", job->id);
  job->url = job_format(job, "redis://limited:p@127.0.0.1:%d", redis_server_port(job->server));
  job_start_agent(job, NULL);
  agent_process_wait_log(job->agent, "stay in sandbox:");
  const cJSON *step = step_with(job, "a", "1");
  job_push(job, step);
  expect_reply(job, "", job_text(step, "stepId"), 0, "");
  const char *heartbeat = job_ask_text(job, "GET sandbox:%s:heartbeat", job->id);
  assert_null(strstr(heartbeat, "replyTo"));
}
