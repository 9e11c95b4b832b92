/* The list `control`: its messages take effect out of band, regardless of waiting steps, and are
   then removed. */

#include "tests/support/crowd.h"
#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/test.h"

#define CANCELLED "cancelled: by a cancel step"

JOB_TEST(an_invalid_message_is_removed_without_a_result) {
  const cJSON *running = job_push_until(job, marks_step(job, "echo up; gate"), "up");
  static const char *const texts[] = {"",
                                      "garbage",
                                      "{",
                                      "{}",
                                      "[]",
                                      "null",
                                      "7",
                                      "{\"kind\":\"cancel\"}",
                                      "{\"kind\":\"cancel\",\"stepId\":\"\"}",
                                      "{\"kind\":\"signal\",\"stepId\":\"x\"}",
                                      "{\"stepId\":\"x\",\"command\":\"true\"}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    job_push_control(job, texts[i]);
  agent_process_wait_log(job->agent, "a control message of 7 bytes is neither a cancel");
  job_wait_length(job, "control", 0);
  assert_int_equal(job_length(job, "results"), 0);
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  job_expect_nothing_left(job);
}

/* The agent reads only the beginning of such a message, and removes it when it is the oldest. */
JOB_TEST(a_message_that_is_too_large_is_removed_and_no_other) {
  const cJSON *running = job_push_endless(job, job_sleep(job, 600));
  char *large = malloc(1 << 20);
  assert_non_null(large);
  memset(large, 'x', (1 << 20) - 1);
  large[(1 << 20) - 1] = '\0';
  assert_int_equal(kill(agent_process_pid(job->agent), SIGSTOP), 0);
  job_push_control(job, "garbage");
  job_push_control(job, large);
  job_push_cancel(job, running);
  job_push_control(job, large);
  free(large);
  assert_int_equal(kill(agent_process_pid(job->agent), SIGCONT), 0);
  job_expect_answer(job, running, -1, CANCELLED, "up\n");
  job_expect_nothing_left(job);
}

static long long bytes_sent_to_redis(struct job *job) {
  return job_ask_number(job, "EVAL %s 0",
                        "return tonumber(string.match(redis.call('INFO', 'stats'), "
                        "'total_net_input_bytes:(%d+)'))");
}

/* Messages that exist at startup are read on another connection. They are not sent back, either. */
JOB_TEST_NO_AGENT(a_cancel_that_is_too_large_is_removed_at_startup) {
  enum { LENGTH = 4000000 };
  const cJSON *step = job_push_echo(job, "runs");
  const char *id = job_text(step, "stepId");
  job_push_control(job,
                   job_format(job, "{\"kind\":\"cancel\",\"stepId\":\"%s\"%*s", id, LENGTH, "}"));
  const long long before = bytes_sent_to_redis(job);
  job_start_agent(job, NULL);
  job_expect_answer(job, step, 0, NULL, "runs\n");
  job_expect_nothing_left(job);
  assert_true(bytes_sent_to_redis(job) - before < LENGTH);
}

/* A client of version 0.2 pushes a cancel to `in`. It takes effect when the steps before it have
   ended. */
JOB_TEST(a_cancel_that_was_pushed_to_in_works_when_its_turn_comes) {
  const cJSON *first = job_push_until(job, marks_step(job, "echo up; gate"), "up");
  const cJSON *second = marks_step(job, "echo up; gate 2");
  job_push(job, second);
  job_push(job, job_cancel_of(job, "waiting"));
  const cJSON *waiting = job_step(job, "true", NULL);
  cJSON_ReplaceItemInObject((cJSON *)(uintptr_t)waiting, "stepId", cJSON_CreateString("waiting"));
  job_push(job, job_push_echo(job, "between"));
  job_push(job, waiting);
  marks_open_gate(job, "");
  job_expect_answer(job, first, 0, NULL, "up\n");
  job_expect_answer(job, waiting, -1, CANCELLED, NULL);
  marks_open_gate(job, "2");
  job_expect_answer(job, second, 0, NULL, "up\n");
  (void)job_result(job);
  (void)job_result(job);
  job_expect_nothing_left(job);
}

/* The agent is killed before it reads the message. */
JOB_TEST(a_cancel_of_a_waiting_step_survives_the_agent) {
  (void)job_push_endless(job, job_sleep(job, 600));
  struct crowd crowd = crowd_push(job, 50, 0);
  assert_int_equal(kill(agent_process_pid(job->agent), SIGSTOP), 0);
  job_push_cancel(job, crowd.steps[30]);
  job_push_cancel(job, crowd.steps[0]); /* this step was fetched ahead */
  job_kill_agent(job);
  assert_int_equal(job_length(job, "control"), 2);
  job_start_agent(job, NULL);
  for (int i = 0; i < 3; i++) { /* includes the interrupted step */
    const cJSON *result = job_result(job);
    assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, -1);
  }
  for (size_t i = 1; i < 50; i++)
    if (i != 30)
      job_expect_answer(job, crowd.steps[i], 0, NULL, job_format(job, "%zu\n", i));
  job_expect_nothing_left(job);
}

/* A new agent reads the messages before it takes its first step. */
JOB_TEST_NO_AGENT(a_message_that_precedes_the_agent_applies_to_the_first_step) {
  const cJSON *first = marks_step(job, "ran");
  const cJSON *second = job_step(job, "echo", "second", NULL);
  job_push(job, first);
  job_push(job, second);
  for (int i = 0; i < 300; i++)
    job_push_control(job, "garbage");
  job_push_cancel(job, first);
  job_start_agent(job, NULL);
  job_expect_answer(job, first, -1, CANCELLED, NULL);
  job_expect_answer(job, second, 0, NULL, "second\n");
  assert_int_equal(marks_count(job), 0);
  job_expect_nothing_left(job);
}

/* The stepId has escapes, and other fields look like a stepId. */
/* A reader may send messages faster than the agent removes them. */
JOB_TEST_NO_AGENT(messages_that_do_not_end_do_not_keep_the_agent_from_its_first_step) {
  job_do(job, "EVAL %s 0 sandbox:%s:control",
         "for i = 1, 100000 do redis.call('LPUSH', ARGV[1], "
         "'{\"kind\":\"read\",\"stepId\":\"x\",\"seq\":1}') end",
         job->id);
  const cJSON *step = job_push_echo(job, "1");
  job_start_agent(job, NULL);
  job_expect_answer(job, step, 0, NULL, "1\n");
  assert_true(job_length(job, "control") > 0);
}

JOB_TEST(a_waiting_step_is_found_however_its_id_is_written) {
  const cJSON *running = job_push_until(job, marks_step(job, "echo up; gate"), "up");
  job_push_json(job, "{'stepId':'fetched','command':'true'}");
  job_push_json(job, "{'env':{'A':'\\\"stepId\\\":\\\"b\\\"'},'stepId':'other','command':'true'}");
  job_push_json(job, "{'env':{'stepId':'b'},'stepId':'another','command':'true'}");
  job_push_json(job, "{'step\\u0049d':'\\u0062','command':'true'}");
  job_push_control(job, "{\"kind\":\"cancel\",\"stepId\":\"b\"}");
  assert_string_equal(job_text(job_result(job), "stepId"), "b");
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  static const char *const rest[] = {"fetched", "other", "another"};
  for (size_t i = 0; i < 3; i++)
    assert_string_equal(job_text(job_result(job), "stepId"), rest[i]);
  job_expect_nothing_left(job);
}

/* Version 0.2 did not need the permission for LRANGE. */
static void start_without_lrange(struct job *job) {
  job_do(job, "ACL SETUSER clerk on >word ~* +@all -lrange");
  job->url = job_format(job, "redis://clerk:word@127.0.0.1:%d", redis_server_port(job->server));
  job_start_agent(job, NULL);
}

JOB_TEST_NO_AGENT(without_lrange_a_step_is_cancelled_when_its_turn_comes) {
  start_without_lrange(job);
  const cJSON *running = job_push_until(job, marks_step(job, "echo up; gate"), "up");
  (void)job_push_echo(job, "fetched");
  const cJSON *waiting = job_push_echo(job, "waiting");
  const cJSON *last = job_push_echo(job, "last");
  job_push_cancel(job, waiting);
  job_push_cancel(job, job_step(job, "never-pushed", NULL));
  agent_process_wait_log(job->agent, "the user needs +lrange");
  assert_int_equal(job_length(job, "results"), 0);
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  const cJSON *next = job_result(job); /* when the step is fetched, while the previous one runs */
  bool is_early = strcmp(job_text(next, "stepId"), job_text(waiting, "stepId")) == 0;
  job_expect_result(job, is_early ? next : job_result(job), -1, CANCELLED, NULL);
  job_expect_result(job, is_early ? job_result(job) : next, 0, NULL, "fetched\n");
  job_expect_answer(job, last, 0, NULL, "last\n");
  agent_process_wait_log(job->agent, "cancel: no such step is running or waiting");
  job_expect_nothing_left(job);
}

/* An agent of version 0.2 has taken many steps and started one. The next agent answers that one and
   runs the others in order, and a cancel finds them. */
JOB_TEST_NO_AGENT(the_steps_of_an_agent_that_took_all_of_them_go_back_to_in) {
  enum { TAKEN = 3000 };
  job_do(job, "SET sandbox:%s:committed 7:00000000000000ff:1", job->id);
  job_do(job, "SET sandbox:%s:started s-1", job->id);
  job_do(job, "EVAL %s 0 sandbox:%s:inflight %d",
         "for i = 1, ARGV[2] do redis.call('LPUSH', ARGV[1], '{\"stepId\":\"s-' .. i .. "
         "'\",\"command\":\"true\"}') end",
         job->id, TAKEN);
  job_push_control(job, "{\"kind\":\"cancel\",\"stepId\":\"s-2900\"}");
  job_start_agent(job, NULL);
  assert_string_equal(job_text(job_result(job), "stepId"), "s-1"); /* interrupted */
  int cancelled_at = 0;
  for (int i = 2; i <= 300; i++) {
    const char *id = job_text(job_result(job), "stepId");
    if (strcmp(id, "s-2900") == 0) {
      cancelled_at = i--;
      continue;
    }
    assert_string_equal(id, job_format(job, "s-%d", i));
  }
  assert_in_range(cancelled_at, 2, 20);
  assert_in_range(job_length(job, "inflight"), 0, 2);
}

static bool control_expires(void *context) {
  struct job *job = context;
  return job_ask_number(job, "PTTL sandbox:%s:control", job->id) > 0;
}

/* Without LRANGE the step is not found, so the message stays in the list. */
JOB_TEST_NO_AGENT(the_control_list_expires_like_the_other_keys) {
  const cJSON *running = marks_step(job, "echo up; gate");
  job_push(job, running);
  (void)job_push_echo(job, "fetched");
  job_push_cancel(job, job_push_echo(job, "waiting"));
  start_without_lrange(job);
  job_wait_event(job, running, "stdout", "up");
  assert_true(wait_until(control_expires, job, WAIT_BOUND_MS));
  assert_int_equal(job_length(job, "control"), 1);
}

TEST_OVERLAP(4)
