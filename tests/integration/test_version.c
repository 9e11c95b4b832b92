/* The schemaVersion of events and results: 1 if the step has version 1 or none, otherwise 2. It
   does not depend on how the step ends, or on whether its payload is still known. The functions of
   tests/support/job.h compare it with `job->schema_version`. */

#include "tests/support/crowd.h"
#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/test.h"

#define CANCELLED "cancelled: by a cancel step"
#define INTERRUPTED "interrupted: the agent ended while this step was running"
#define LOST "lost: the step has run, and redis has lost its result"

JOB_TEST(the_schema_version_follows_that_of_the_step) {
  static const struct {
    const char *version;
    int expected;
  } rows[] = {{"", 1},
              {"'schemaVersion':null,", 1},
              {"'schemaVersion':1,", 1},
              {"'schemaVersion':1.0,", 1},
              {"'schemaVersion':2,", 2},
              {"'schemaVersion':3,", 2},
              {"'schemaVersion':0,", 2},
              {"'schemaVersion':-1,", 2},
              {"'schemaVersion':2147483647,", 2},
              {"'schemaVersion':-2147483648,", 2}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    job->schema_version = rows[i].expected;
    job_do(job, "DEL sandbox:%s:events", job->id);
    cJSON *step =
        job_own(job, cJSON_Parse(quoted(formatted("{%s'stepId':'s-%zu','command':'sh',"
                                                  "'args':['-c','echo out; echo error >&2']}",
                                                  rows[i].version, i))));
    assert_non_null(step);
    job_expect_result(job, job_run(job, step), 0, NULL, "out\n");
    assert_int_equal(cJSON_GetArraySize(job_events(job, step)), 4);
  }
}

/* A rejected step is answered with its own version if the agent can read it. A payload that is not
   a step is answered with version 1. */
JOB_TEST(a_refusal_has_the_schema_version_of_the_step) {
  static const struct {
    const char *payload;
    int expected;
  } rows[] = {{"{'schemaVersion':2,'stepId':'s','kind':'jump'}", 2},
              {"{'schemaVersion':2,'stepId':'s','kind':[]}", 2},
              {"{'stepId':'s','command':5,'schemaVersion':2}", 2},
              {"{'schemaVersion':2,'command':'true'}", 2},
              {"{'schemaVersion':2,'stepId':'s','x':1,'x':1}", 2},
              {"{'schemaVersion':2,'stepId':'s','kind':'cancel','x':1,'x':1}", 2},
              {"{'schemaVersion':1,'stepId':'s','command':''}", 1},
              {"{'stepId':'s'}", 1},
              {"{'schemaVersion':'2','stepId':'s','command':'true'}", 1},
              {"{'schemaVersion':2.5,'stepId':'s','command':'true'}", 1},
              {"{'schemaVersion':2,'stepId':'s','command':'true'", 1},
              {"hello", 1},
              {"[2]", 1},
              {"", 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    job->schema_version = rows[i].expected;
    job_push_json(job, rows[i].payload);
    assert_int_equal(cJSON_GetObjectItem(job_result(job), "exitCode")->valueint, -1);
  }
}

JOB_TEST(every_outcome_has_the_schema_version) {
  job->schema_version = 2;
  cJSON *late = job_step(job, "sleep", "60", NULL);
  cJSON_AddNumberToObject(late, "timeoutSeconds", 1);
  job_expect_result(job, job_run(job, late), -1, "timed out after 1s", NULL);
  job_expect_part(job, job_run(job, job_step(job, "no-such-command", NULL)), "errorMessage",
                  "no-such-command");
  const cJSON *running = job_push_until(job, job_script(job, "echo up; exec sleep 600"), "up");
  job_push_cancel(job, running);
  job_expect_answer(job, running, -1, CANCELLED, "up\n");
  (void)job_events(job, running);
  const cJSON *stopped = job_push_until(job, job_script(job, "echo up; exec sleep 600"), "up");
  assert_int_equal(kill(agent_process_pid(job->agent), SIGTERM), 0);
  job_expect_answer(job, stopped, -1, "cancelled: the agent was stopped by SIGTERM", "up\n");
  job_expect_exit(job, 128 + SIGTERM);
}

/* One cancelled step was fetched by the agent, and the other one waits in `in`. */
JOB_TEST(a_step_cancelled_while_it_waits_has_the_schema_version) {
  enum { WAITING = 200 };
  job->schema_version = 2;
  const cJSON *running = job_push_until(job, marks_step(job, "echo up; gate"), "up");
  struct crowd crowd = crowd_push(job, WAITING, 0);
  job_wait_length(job, "inflight", 2);
  job_push_cancel(job, crowd.steps[3]);
  job_expect_answer(job, crowd.steps[3], -1, CANCELLED, NULL);
  job_push_cancel(job, crowd.steps[WAITING - 2]);
  job_expect_answer(job, crowd.steps[WAITING - 2], -1, CANCELLED, NULL);
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  job_expect_answer(job, crowd.steps[0], 0, NULL, "0\n");
}

JOB_TEST(an_interrupted_step_has_the_schema_version) {
  job->schema_version = 2;
  const cJSON *running = job_push_until(job, job_script(job, "echo up; exec sleep 600"), "up");
  const cJSON *waiting = job_push_echo(job, "waiting");
  job_wait_length(job, "inflight", 2);
  job_kill_agent(job);
  job_start_agent(job, NULL);
  job_expect_answer(job, running, -1, INTERRUPTED, NULL);
  job_expect_answer(job, waiting, 0, NULL, "waiting\n");
}

/* The payload is lost, so the agent reads the version from the events in the stream. */
JOB_TEST(an_interrupted_step_without_its_payload_has_the_schema_version) {
  job->schema_version = 2;
  const cJSON *running = job_push_until(job, job_script(job, "echo up; exec sleep 600"), "up");
  job_kill_agent(job);
  job_do(job, "DEL sandbox:%s:inflight", job->id);
  job_start_agent(job, NULL);
  job_expect_answer(job, running, -1, INTERRUPTED, NULL);
}

JOB_TEST_NO_AGENT(a_step_that_redis_has_lost_has_the_schema_version) {
  job->schema_version = 2;
  const cJSON *step = job_push_echo(job, "once");
  job_do(job, "SAVE");
  job_start_agent(job, NULL);
  job_expect_answer(job, step, 0, NULL, "once\n");
  job_wait_length(job, "inflight", 0);
  job_restart_server(job);
  job_expect_answer(job, step, -1, LOST, NULL);
}

JOB_TEST(an_undelivered_result_has_the_schema_version) {
  job->schema_version = 2;
  job_do(job, "CONFIG SET proto-max-bulk-len 1048576");
  const cJSON *step = job_script(job, "head -c 500000 /dev/zero | tr '\\0' '\\1' | fold -w 1000");
  job_push(job, step);
  job_expect_exit(job, 3);
  agent_process_wait_log(
      job->agent, job_format(job, "undelivered result: {\"schemaVersion\":2,\"stepId\":\"%s\"",
                             job_text(step, "stepId")));
}
