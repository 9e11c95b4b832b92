/* sandbox cancel: the message goes to the list `control`, or to `in` if the agent has version 0.2.
   */

#include "tests/support/sandbox_client.h"
#include "tests/test.h"

#define ID "7f3a0000-aaaa-4aaa-8aaa-000000000001"

/* A heartbeat of an agent with these features, which does nothing else. */
static void set_heartbeat(struct job *job, const char *features) {
  const char *json =
      job_format(job, "{\"Pid\":1,\"Ts\":1,\"Version\":\"x\",\"Features\":[%s]}", features);
  job_do(job, "SET sandbox:%s:heartbeat %s", job->id, json);
}

static void expect_message(struct job *job, const char *list, const char *message) {
  char *text = job_ask_text(job, "LINDEX sandbox:%s:%s 0", job->id, list);
  assert_string_equal(text, message);
}

static long long ask(struct job *job, const char *command, const char *key) {
  return job_ask_number(job, job_format(job, "%s sandbox:%%s:%s", command, key), job->id);
}

JOB_TEST_NO_AGENT(an_agent_with_the_feature_gets_a_cancel_out_of_band) {
  set_heartbeat(job, "\"cancel\",\"control\"");
  job_push_json(job, "{'stepId':'" ID "','command':'true'}");
  sandbox_expect(job, "$S cancel 7f3a", 0, "", "cancelling 7f3a\n");
  expect_message(job, "control", "{\"kind\":\"cancel\",\"stepId\":\"" ID "\"}");
  assert_int_equal(ask(job, "TTL", "control"), -1);
  job_wait_length(job, "in", 1);
}

JOB_TEST_NO_AGENT(an_agent_without_the_feature_gets_a_cancel_among_the_steps) {
  set_heartbeat(job, "\"cancel\"");
  job_push_json(job, "{'stepId':'" ID "','command':'true'}");
  sandbox_expect(job, "$S cancel 7f3a", 0, "", "cancelling 7f3a\n");
  expect_message(job, "in", "{\"schemaVersion\":1,\"stepId\":\"" ID "\",\"kind\":\"cancel\"}");
  job_wait_length(job, "in", 2);
  assert_int_equal(ask(job, "EXISTS", "control"), 0);
}

JOB_TEST_NO_AGENT(without_an_agent_a_cancel_waits_for_a_day) {
  job_push_json(job, "{'stepId':'" ID "','command':'true'}");
  job_push_json(job, "{'stepId':'a\\\\\"b','command':'true'}");
  sandbox_expect(job, "$S cancel --waiting", 0, "", NULL);
  job_wait_length(job, "control", 2);
  expect_message(job, "control", "{\"kind\":\"cancel\",\"stepId\":\"" ID "\"}");
  assert_in_range(ask(job, "TTL", "control"), 86000, 86400);
  job_wait_length(job, "in", 2);
}

JOB_TEST_NO_AGENT(the_next_agent_cancels_all_steps_before_it_runs_one) {
  sandbox_expect(job,
                 "for i in 0 1 2; do $S run --detach --id "
                 "1111111$i-aaaa-4aaa-8aaa-000000000001 -- touch ran; done",
                 0, NULL, "");
  sandbox_expect(job, "$S cancel --all 2>&1 | tail -n 1", 0,
                 "no agent is alive: the next one cancels these steps, if it starts within a day\n",
                 "");
  job_start_agent(job, NULL);
  for (int i = 0; i < 3; i++) {
    const char *list = job_format(job, "results:1111111%d-aaaa-4aaa-8aaa-000000000001", i);
    job_wait_length(job, list, 1);
    const char *result = job_ask_text(job, "RPOP sandbox:%s:%s", job->id, list);
    assert_non_null(strstr(result, "cancelled: by a cancel step"));
  }
  sandbox_expect(job, "$S run -- test ! -e ran; $S ps --json", 0, "[]\n", "");
}

JOB_TEST_NO_AGENT(a_shutdown_waits_for_its_turn_and_needs_an_agent) {
  sandbox_expect(job, "$S shutdown", 125, "", NULL);
  job_wait_length(job, "in", 0);
  set_heartbeat(job, "\"control\"");
  job_push_json(job, "{'stepId':'" ID "','command':'true'}");
  sandbox_expect(job, "$S shutdown --now", 0, "", NULL);
  job_wait_length(job, "control", 1);
  job_wait_length(job, "in", 2);
}

JOB_TEST_NO_AGENT(an_interrupt_of_run_is_sent_out_of_band) {
  set_heartbeat(job, "\"control\"");
  struct sandbox_terminal *terminal =
      sandbox_terminal_start(job, "exec $S run --id " ID " -- true");
  job_wait_length(job, "in", 1);
  sandbox_terminal_send(terminal, "\x03");
  job_wait_length(job, "control", 1);
  expect_message(job, "control", "{\"kind\":\"cancel\",\"stepId\":\"" ID "\"}");
  const char *result = "{\"stepId\":\"" ID "\",\"exitCode\":-1,\"errorMessage\":\"cancelled: by a "
                       "cancel step\",\"eventCount\":0}";
  job_do(job, "LPUSH sandbox:%s:results %s", job->id, result);
  job_do(job, "DEL sandbox:%s:in", job->id);
  sandbox_terminal_expect_exit(terminal, 130);
  job_wait_length(job, "results", 0);
}

/* --- doctor ----------------------------------------------------------------------------------- */

JOB_TEST_NO_AGENT(doctor_checks_the_type_of_the_control_list) {
  job_do(job, "SET sandbox:%s:control x", job->id);
  sandbox_expect(job, "$S doctor | grep -c '^✗ sandbox:.*:control is a string, not a list'", 0,
                 "1\n", "");
}

JOB_TEST_NO_AGENT(doctor_names_the_permission_that_agents_need_since_0_3) {
  redisContext *agent = redis_server_connect(job->server);
  job_do(job, "ACL SETUSER old on >x ~sandbox:* +@all -lrange");
  freeReplyObject(redisCommand(agent, "AUTH old x"));
  freeReplyObject(redisCommand(agent, "CLIENT SETNAME sandbox:%s:heartbeat", job->id));
  const char *command = "$S doctor | grep -e \"agent's user old\"";
  set_heartbeat(job, "\"cancel\"");
  sandbox_expect(job, command, 0,
                 "✓ ACL: the agent's user old has the rights that an agent needs\n", "");
  set_heartbeat(job, "\"control\"");
  sandbox_expect(
      job, command, 0,
      "! ACL: the agent's user old may not use LRANGE: a waiting step that was cancelled "
      "is only answered when its turn comes   → ACL SETUSER old +lrange\n",
      "");
  redisFree(agent);
}

static void add_event(struct job *job, const char *kind, int seq) {
  job_do(job, "XADD sandbox:%s:events * data %s", job->id,
         job_json(job, "{'stepId':'" ID "','kind':'%s','line':'','seq':%d}", kind, seq));
}

static bool control_expires(void *job) {
  return ask(job, "TTL", "control") > 86000;
}

/* Otherwise the list would stay forever if no agent comes. */
JOB_TEST_NO_AGENT(reads_are_kept_for_a_day) {
  set_heartbeat(job, "\"control\",\"flowControl\"");
  struct agent_process *client = sandbox_start(job, "exec $S run --id " ID " -- true");
  job_wait_length(job, "in", 1);
  add_event(job, "started", 1);
  job_wait_length(job, "control", 1);
  expect_message(job, "control", "{\"kind\":\"read\",\"stepId\":\"" ID "\",\"seq\":1}");
  assert_true(wait_until(control_expires, job, WAIT_BOUND_MS));
  agent_process_free(client);
}

/* Otherwise the command would wait for a reader that waits for the command. */
JOB_TEST_NO_AGENT(a_read_that_redis_refuses_is_sent_again) {
  set_heartbeat(job, "\"control\",\"flowControl\"");
  job_do(job, "SET sandbox:%s:control x", job->id);
  struct agent_process *client = sandbox_start(job, "exec $S run --id " ID " -- true");
  job_wait_length(job, "in", 1);
  add_event(job, "started", 1);
  job_wait_text(job, "INFO errorstats", "errorstat_WRONGTYPE");
  job_do(job, "DEL sandbox:%s:control", job->id);
  job_wait_length(job, "control", 1);
  agent_process_free(client);
}

JOB_TEST(a_step_whose_events_cannot_be_read_is_cancelled) {
  const char *sleep = job_sleep(job, 600);
  job_do(job, "ACL SETUSER narrow reset on nopass ~sandbox:* +@all");
  struct agent_process *client =
      sandbox_start(job, job_format(job,
                                    "exec $S -u redis://narrow:x@127.0.0.1:${REDIS_URL##*:} run -c "
                                    "'echo up; %s'",
                                    sleep));
  sandbox_wait_output(client, "up");
  job_do(job, "ACL SETUSER narrow -xread");
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 125);
  assert_non_null(strstr(agent_process_log(client), "cannot read the events: NOPERM"));
  agent_process_free(client);
  assert_true(proc_wait_gone(sleep, WAIT_BOUND_MS));
}
