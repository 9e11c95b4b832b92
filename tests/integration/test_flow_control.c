/* With `flowControl`, events stay in the stream until their reader has read them. */

#include "tests/support/job.h"
#include "tests/support/marks.h"

static cJSON *controlled(struct job *job, const char *script) {
  cJSON *step = job_script(job, script);
  cJSON_AddTrueToObject(step, "flowControl");
  return step;
}

static void push_read(struct job *job, const cJSON *step, int seq) {
  job_push_control(
      job, job_json(job, "{'kind':'read','stepId':'%s','seq':%d}", job_text(step, "stepId"), seq));
}

/* Reads the stream from `cursor` on, with at most `count` entries. Returns the seq of the last
   event of the step; each must follow the one before. */
static int read_more(struct job *job, const cJSON *step, char cursor[64], int seq, int count) {
  redisReply *entries =
      job_ask(job, "XRANGE sandbox:%s:events (%s + COUNT %d", job->id, cursor, count);
  for (size_t i = 0; i < entries->elements; i++) {
    const redisReply *fields = entries->element[i]->element[1];
    snprintf(cursor, 64, "%s", entries->element[i]->element[0]->str);
    if (strcmp(fields->element[0]->str, "data") != 0)
      continue;
    const cJSON *event = job_own(job, cJSON_Parse(fields->element[1]->str));
    if (strcmp(job_text(event, "stepId"), job_text(step, "stepId")) != 0)
      continue;
    if ((int)job_number(event, "seq") != seq + 1)
      job_fail(job, "event %d follows event %d", (int)job_number(event, "seq"), seq);
    seq++;
  }
  freeReplyObject(entries);
  return seq;
}

/* Reads all events, slowly. Another program adds an entry for each page, at most. Returns the
   largest length of the stream. */
static long long read_slowly(struct job *job, const cJSON *step, int events) {
  char cursor[64] = "0";
  long long most = 0;
  for (int seq = 0, before = 0; seq < events; before = seq) {
    long long length = job_ask_number(job, "XLEN sandbox:%s:events", job->id);
    most = length > most ? length : most;
    seq = read_more(job, step, cursor, seq, 50);
    push_read(job, step, seq);
    if (seq > before)
      job_do(job, "XADD sandbox:%s:events * other entry", job->id);
  }
  return most;
}

/* The command runs until all is read, because its rest would not wait. */
static void expect_every_event(struct job *job, const char *keep_bytes) {
  enum { LINES = 4000, MAXLEN = 200 };
  job_start_agent(job, "--events-maxlen", job_format(job, "%d", MAXLEN), "--events-keep-bytes",
                  keep_bytes, NULL);
  cJSON *step = marks_step(job, job_format(job, "seq 1 %d; gate", LINES));
  cJSON_AddTrueToObject(step, "flowControl");
  job_push(job, step);
  long long most = read_slowly(job, step, LINES + 1);
  assert_in_range(most, MAXLEN, 8 * MAXLEN); /* half of them may be of the other program */
  marks_open_gate(job, "");
  assert_int_equal(job_event_count(job_result_of(job, step)), LINES + 2);
  job_wait_length(job, "control", 0);
}

JOB_TEST_NO_AGENT(a_slow_reader_misses_no_event) {
  expect_every_event(job, "1000");
}

JOB_TEST_NO_AGENT(a_slow_reader_misses_no_event_if_each_event_trims_the_stream) {
  expect_every_event(job, "0");
}

/* More lines than fit into the pipe of a command. */
#define MANY "20000"

static bool has_events(void *context) {
  struct job *job = context;
  return job_ask_number(job, "XLEN sandbox:%s:events", job->id) == 1001;
}

/* The command has printed more than may be unread, and is blocked. */
static cJSON *push_waiting(struct job *job, const char *end, int timeout_seconds) {
  job_start_agent(job, "--events-maxlen", "1000", NULL);
  cJSON *step = controlled(job, job_format(job, "seq 1 " MANY "; %s", end));
  cJSON_AddNumberToObject(step, "timeoutSeconds", timeout_seconds);
  job_push(job, step);
  if (!wait_until(has_events, job, WAIT_BOUND_MS))
    job_fail(job, "not 1001 events");
  return step;
}

/* All events of the result are in the stream. */
static void expect_protected(struct job *job, const cJSON *step) {
  const cJSON *result = job_result_of(job, step);
  assert_int_equal(cJSON_GetArraySize(job_events(job, step)), job_event_count(result));
  assert_true(job_event_count(result) > 1001);
}

JOB_TEST_NO_AGENT(a_command_waits_for_its_reader) {
  const cJSON *step = push_waiting(job, "exit 3", 600);
  (void)read_slowly(job, step, 20002);
  const cJSON *result = job_result_of(job, step);
  assert_int_equal((int)job_number(result, "exitCode"), 3);
  assert_int_equal(job_event_count(result), 20002);
}

/* 1,000 lines of 1,000 bytes are fewer than may be unread, but too many bytes. When the command has
   ended, its pipe may still have 64 KiB. */
JOB_TEST_NO_AGENT(a_command_waits_if_many_bytes_are_unread) {
  job_start_agent(job, "--events-maxlen", "10000", "--events-keep-bytes", "200000", NULL);
  const cJSON *step = controlled(job, "yes $(printf %01000d 0) | head -n 1000; exit 3");
  job_push(job, step);
  char cursor[64] = "0";
  for (int seq = 0; seq < 1002;) {
    assert_in_range(job_ask_number(job, "XLEN sandbox:%s:events", job->id) - seq, 0, 300);
    seq = read_more(job, step, cursor, seq, 50);
    push_read(job, step, seq);
  }
  assert_int_equal((int)job_number(job_result_of(job, step), "exitCode"), 3);
}

JOB_TEST_NO_AGENT(a_cancelled_command_does_not_wait) {
  const cJSON *step = push_waiting(job, "exit 3", 600);
  job_push_cancel(job, step);
  expect_protected(job, step);
}

JOB_TEST_NO_AGENT(the_deadline_runs_while_a_command_waits) {
  expect_protected(job, push_waiting(job, "exit 3", 2));
}

/* What is left in its pipe does not keep the step from its result. */
JOB_TEST_NO_AGENT(the_output_of_a_command_that_has_ended_does_not_wait) {
  job_start_agent(job, "--events-maxlen", "1000", NULL);
  const cJSON *step = controlled(job, "seq 1 5000");
  job_push(job, step);
  expect_protected(job, step);
}

/* A command that ignores SIGTERM can add as much again, and no more, until it is killed. */
JOB_TEST_NO_AGENT(a_command_that_is_killed_adds_a_bounded_amount) {
  job_start_agent(job, "--events-maxlen", "1000", NULL);
  cJSON *step = controlled(job, "trap '' TERM; yes");
  cJSON_AddNumberToObject(step, "timeoutSeconds", 1);
  job_push(job, step);
  const cJSON *result = job_result_of(job, step);
  assert_in_range(job_event_count(result), 1001, 2001 + 3 * 65536 / 2);
}

/* An agent that begins with a long stream would trim it at once. */
JOB_TEST_NO_AGENT(an_agent_that_takes_over_trims_nothing_at_first) {
  const cJSON *step = push_waiting(job, "exec sleep 600", 600);
  push_read(job, step, 5);
  job_kill_agent(job);
  job_start_agent(job, "--events-maxlen", "3", "--events-keep-bytes", "0", NULL);
  job_result_of(job, step);
  job_run(job, job_step(job, "true", NULL));
  char cursor[64] = "0";
  assert_in_range(read_more(job, step, cursor, 0, 10000), 1001, 5000);
}

JOB_TEST_NO_AGENT(without_a_length_no_command_waits) {
  job_start_agent(job, "--events-maxlen", "0", NULL);
  const cJSON *step = controlled(job, "seq 1 20000");
  assert_int_equal(job_event_count(job_run(job, step)), 20002);
}

JOB_TEST(a_malformed_read_is_removed) {
  static const char *const rows[] = {"{'kind':'read','stepId':'a','seq':'1'}",
                                     "{'kind':'read','stepId':'a','seq':1.5}",
                                     "{'kind':'read','seq':1}", "{'kind':'read','stepId':'a'}"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    job_push_control(job, job_json(job, "%s", rows[i]));
  job_wait_length(job, "control", 0);
  assert_int_equal(agent_process_count_log(job->agent, "neither a cancel nor a read"), 3);
  job_push_json(job, "{'kind':'read','stepId':'a','seq':1}");
  job_expect_part(job, job_result(job), "errorMessage", "does not know the step kind");
}
