/* Payloads that are refused, with their error messages. */

#include <sys/resource.h>

#include "tests/support/job.h"

#define NIL "00000000-0000-0000-0000-000000000000"

struct refusal {
  const char *payload;
  const char *names; /* the field that the message names, or "payload" */
  const char *step_id;
};

/* If the id cannot be read, the result has the NIL id. */
static const struct refusal whole[] = {
    {"", "JSON", NIL},
    {"hello", "JSON", NIL},
    {"\xFF\xFE{}", "payload", NIL},
    {"[]", "object", NIL},
    {"{'stepId':'s','command':'tr", "JSON", "s"},
    {"{'stepId':'s", "JSON", NIL},
    {"{'stepId':'s','command':'true'} {}", "payload", "s"},
    {"{'stepId':'s','command':'a','command':'b'}", "command", "s"},
    {"{'command':'true'}", "stepId", NIL},
    {"{'stepId':'s\\u0000t','command':'true'}", "stepId", NIL},
};

/* The members of a step with the id `s`. */
static const struct refusal fields[] = {
    {"'command':'a','schemaVersion':'2'", "schemaVersion", NULL},
    {"'command':'a','kind':['run']", "kind", NULL},
    {"'kind':'run'", "command", NULL},
    {"'command':'a\\u0000b'", "command", NULL},
    {"'command':'a','args':['b',3]", "args", NULL},
    {"'command':'a','workingDirectory':7", "workingDirectory", NULL},
    {"'command':'a','env':{'A=B':'1'}", "env", NULL},
    {"'command':'a','timeoutSeconds':0", "timeoutSeconds", NULL},
};

static void expect_refusal(struct job *job, const char *text, const char *names,
                           const char *step_id) {
  const char *payload = job_json(job, "%s", text);
  job_push_text(job, payload, strlen(payload));
  const cJSON *result = job_result(job);
  if (strcmp(job_text(result, "stepId"), step_id) != 0)
    job_fail(job, "stepId is %s for %s", job_text(result, "stepId"), payload);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, -1);
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(result, "timedOut")));
  assert_true(cJSON_IsNull(cJSON_GetObjectItem(result, "outputContent")));
  job_expect_part(job, result, "errorMessage", names);
  job_expect_part(job, result, "errorMessage", "expected");
}

JOB_TEST(a_payload_that_is_not_a_step_is_rejected) {
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    expect_refusal(job, whole[i].payload, whole[i].names, whole[i].step_id);
  job_expect_to_go_on(job);
}

JOB_TEST(a_step_with_an_invalid_field_is_rejected) {
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    expect_refusal(job, job_format(job, "{'stepId':'s',%s}", fields[i].payload), fields[i].names,
                   "s");
  job_expect_to_go_on(job);
}

JOB_TEST(an_invalid_shutdown_is_rejected) {
  expect_refusal(job, "{'kind':'shutdown'}", "stepId", NIL);
  expect_refusal(job, "{'stepId':'s','kind':'shutdown','schemaVersion':1.5}", "schemaVersion", "s");
  job_expect_to_go_on(job);
  job_shut_down(job);
}

JOB_TEST(field_names_cannot_forge_a_line_of_the_log) {
  expect_refusal(job, "{'stepId':'s',\n'kind':['x'],\r\n'forged':'\x1b[31m\x7f'}", "payload", "s");
  expect_refusal(job, "{'stepId':'s',\n'kind':['x'],\r\n'forged\x7f':''}", "kind", "s");
  agent_process_wait_log(job->agent, "forged");
  const char *log = agent_process_log(job->agent);
  assert_null(strstr(log, "\n\"kind\""));
  assert_null(strchr(log, '\x1b'));
  assert_null(strchr(log, '\r'));
  assert_null(strchr(log, '\x7f'));
}

/* --- large payloads: only of the shipped program, because a sanitizer checks each byte --- */

enum { MIB = 1024 * 1024, USUAL_RSS_KIB = 8 * 1024 };

#define LARGE_TEST(NAME)                                                                           \
  TEST_WITH_IF(agent_process_is_shipped(), struct job *job, NAME, job_setup, job_teardown)

/* A valid step of exactly this size. An unknown field holds the padding. */
static void push_of_size(struct job *job, size_t size, const char *step_id) {
  const char *head =
      job_json(job, "{'stepId':'%s','command':'echo','args':['big'],'padding':'", step_id);
  job_push_filled(job, head, "x", size, "\"}");
}

static bool is_small_again(void *context) {
  const struct job *job = context;
  return proc_status_kib(agent_process_pid(job->agent), "VmRSS") < USUAL_RSS_KIB;
}

static void expect_usual_memory(struct job *job) {
  if (!wait_until(is_small_again, job, WAIT_BOUND_MS))
    job_fail(job, "%ld KiB are still resident",
             proc_status_kib(agent_process_pid(job->agent), "VmRSS"));
}

static void expect_refusal_of_size(struct job *job, size_t size) {
  push_of_size(job, size, "large");
  const cJSON *result = job_result(job);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, -1);
  job_expect_part(job, result, "errorMessage", "67108864");
  /* The payload is discarded while it arrives, except for its beginning, which has the id. */
  assert_string_equal(job_text(result, "stepId"), "large");
}

LARGE_TEST(a_payload_of_64_mib_is_accepted) {
  push_of_size(job, (size_t)64 * MIB, "largest");
  const cJSON *result = job_result(job);
  job_expect_result(job, result, 0, NULL, "big\n");
  assert_string_equal(job_text(result, "stepId"), "largest");
  expect_usual_memory(job);
}

LARGE_TEST(a_payload_over_64_mib_is_rejected) {
  expect_refusal_of_size(job, (size_t)64 * MIB + 1);
  expect_usual_memory(job);
  job_expect_to_go_on(job);
}

/* The smallest values of JSON take many times as much memory as text. */
LARGE_TEST(a_payload_of_many_small_values_does_not_exhaust_memory) {
  const char *head = job_json(job, "{'stepId':'crowd','command':'true','crowd':[");
  job_push_filled(job, head, "1,", (size_t)60 * MIB, "1]}");
  assert_string_equal(job_text(job_result(job), "stepId"), "crowd");
  expect_usual_memory(job);
  job_expect_to_go_on(job);
}

/* --- little memory: only of the shipped program, because sanitizers need more --- */

#define SHORT_TEST(NAME)                                                                           \
  TEST_WITH_IF(agent_process_is_shipped(), struct job *job, NAME, job_setup_server, job_teardown)

static void have_8_mebibytes(const void *context) {
  (void)context;
  const struct rlimit limit = {8 * MIB, 8 * MIB};
  if (setrlimit(RLIMIT_DATA, &limit) != 0)
    _exit(99);
}

static void start_with_8_mebibytes(struct job *job) {
  job->setup.prepare = have_8_mebibytes;
  job_start_agent(job, NULL);
}

SHORT_TEST(a_payload_that_does_not_fit_into_memory_is_rejected) {
  enum { VALUES = 150000 };
  static char values[2 * VALUES];
  for (size_t i = 0; i < VALUES; i++)
    memcpy(values + 2 * i, "1,", 2);
  values[2 * VALUES - 1] = '\0';
  start_with_8_mebibytes(job);
  job_push_json(job, job_format(job, "{'stepId':'s','command':'true','x':[%s]}", values));
  const cJSON *result = job_result(job);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, -1);
  assert_string_equal(job_text(result, "stepId"), "s");
  job_expect_part(job, result, "errorMessage", "there is not enough memory for its");
  job_expect_to_go_on(job);
}

static void have_120_mebibytes_of_addresses(const void *context) {
  (void)context;
  const struct rlimit limit = {120 * MIB, 120 * MIB};
  if (setrlimit(RLIMIT_AS, &limit) != 0)
    _exit(99);
}

SHORT_TEST(a_memory_limit_bounds_the_payload) {
  job->setup.prepare = have_120_mebibytes_of_addresses;
  job_start_agent(job, NULL);
  push_of_size(job, (size_t)60 * MIB, "large");
  const cJSON *result = job_result(job);
  assert_string_equal(job_text(result, "stepId"), "large");
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, -1);
  assert_string_equal(job_text(result, "errorMessage"),
                      "payload: expected at most 15728640 bytes, an eighth of the memory that this "
                      "agent may use");
  job_expect_to_go_on(job);
  push_of_size(job, (size_t)15 * MIB, "fits");
  job_expect_result(job, job_result(job), 0, NULL, "big\n");
}

/* Memory runs out while a reply arrives, and after it has arrived. The agent has read its limits
   before, for a step of 1 MiB. */
SHORT_TEST(the_agent_exits_if_it_runs_out_of_memory) {
  static const struct {
    rlim_t limit;
    size_t size;
  } rows[] = {{8 * MIB, (size_t)30 * MIB}, {(rlim_t)80 * MIB, (size_t)60 * MIB}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    job_do(job, "FLUSHALL");
    job_start_agent(job, NULL);
    push_of_size(job, (size_t)MIB, "fits");
    job_expect_result(job, job_result(job), 0, NULL, "big\n");
    const struct rlimit limit = {rows[i].limit, rows[i].limit};
    assert_int_equal(prlimit(agent_process_pid(job->agent), RLIMIT_DATA, &limit, NULL), 0);
    push_of_size(job, rows[i].size, "large");
    job_expect_exit(job, 3);
    agent_process_wait_log(job->agent, "out of memory: cannot allocate ");
  }
}

TEST_OVERLAP(2)
