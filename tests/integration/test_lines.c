/* Lines of output become events in the stream. */

#include "tests/support/job.h"

enum { ROUNDS = 6 };

/* Many tools write one; a UTF-8 text begins after it. */
JOB_TEST(a_byte_order_mark_is_removed) {
  static const char script[] = "printf '\\357'; sleep 0.1; printf '\\273'; sleep 0.1;"
                               " printf '\\277a\\n\\357\\273\\277b\\n';"
                               " printf '\\357\\273\\277c\\n' >&2";
  const cJSON *step = job_script(job, script);
  job_expect_result(job, job_run(job, step), 0, NULL,
                    "a\n\xEF\xBB\xBF"
                    "b\n");
  assert_string_equal(job_lines(job, step, "stdout"), "a\n\xEF\xBB\xBF"
                                                      "b\n");
  assert_string_equal(job_lines(job, step, "stderr"), "c\n");
}

/* Returns the number of events of a line of this many bytes. */
static int pieces_of(struct job *job, const char *bytes) {
  const cJSON *step = job_script(
      job, job_format(job, "head -c %s /dev/zero | tr '\\0' x; echo; echo short", bytes));
  job_run(job, step);
  int pieces = 0;
  size_t length = 0;
  const cJSON *event;
  cJSON_ArrayForEach(event, job_events(job, step)) {
    const char *line = job_text(event, "line");
    if (strcmp(job_text(event, "kind"), "stdout") != 0 || strcmp(line, "short") == 0)
      continue;
    pieces++;
    length += strlen(line);
  }
  assert_int_equal(length, strtoul(bytes, NULL, 10));
  return pieces;
}

/* Readers of the first version join events by newlines, for instance an audit in JSON. */
JOB_TEST(a_line_of_a_mebibyte_is_one_event) {
  assert_int_equal(pieces_of(job, "891000"), 1);
  assert_int_equal(pieces_of(job, "1048576"), 1);
  assert_int_equal(pieces_of(job, "1048577"), 2);
}

JOB_TEST_NO_AGENT(line_bytes_allows_longer_lines) {
  job_start_agent(job, "--line-bytes", "8000000", "--hold-bytes", "65536", NULL);
  assert_int_equal(pieces_of(job, "8000000"), 1);
}

JOB_TEST_NO_AGENT(a_longer_line_arrives_in_pieces) {
  job_start_agent(job, "--line-bytes", "262144", NULL);
  /* A bit more than 300 KiB of three-byte characters, so that the limit falls inside of one. */
  const cJSON *step = job_script(
      job, "head -c 103000 /dev/zero | sed 's/\\x00/\\xe6\\xbc\\xa2/g'; echo; echo short");
  job_run(job, step);
  size_t total = 0;
  int lines = 0;
  int pieces = 0;
  const cJSON *event;
  cJSON_ArrayForEach(event, job_events(job, step)) {
    if (strcmp(job_text(event, "kind"), "stdout") != 0)
      continue;
    const char *line = job_text(event, "line");
    const cJSON *partial = cJSON_GetObjectItem(event, "partial");
    assert_true(partial == NULL || cJSON_IsTrue(partial));
    assert_true(strlen(line) <= 262144);
    assert_null(strstr(line, "\xEF\xBF\xBD"));
    pieces += partial != NULL;
    lines += partial == NULL;
    total += lines < 2 ? strlen(line) : 0;
  }
  assert_int_equal(lines, 2);
  assert_true(pieces >= 1);
  assert_int_equal(total, 309000);
  const char *joined = job_lines(job, step, "stdout");
  assert_string_equal(joined + 309000, "\nshort\n");
}

JOB_TEST_NO_AGENT(the_stream_is_trimmed_to_its_maximum) {
  job_start_agent(job, "--events-maxlen", "500", "--events-keep-bytes", "0", NULL);
  const cJSON *step = job_step(job, "seq", "20000", NULL);
  job_run(job, step);
  /* Redis trims whole nodes, which have 100 entries by default. */
  int events = cJSON_GetArraySize(job_events(job, step));
  if (events < 500 || events > 1000)
    job_fail(job, "%d events are left of 500", events);
  const char *lines = job_lines(job, step, "stdout");
  assert_string_equal(lines + strlen(lines) - 12, "19999\n20000\n");
}

static long long entries_of(struct job *job) {
  redisReply *reply = redisCommand(job->redis, "XLEN sandbox:%s:events", job->id);
  assert_non_null(reply);
  long long entries = reply->integer;
  freeReplyObject(reply);
  return entries;
}

static bool stream_is_trimmed(void *context) {
  return entries_of(context) <= 10100;
}

static void expect_trimmed(struct job *job) {
  if (!wait_until(stream_is_trimmed, job, WAIT_BOUND_MS) || entries_of(job) < 10000)
    job_fail(job, "%lld entries stay", entries_of(job));
}

JOB_TEST(the_stream_holds_10000_older_events) {
  job_run(job, job_step(job, "seq", "30000", NULL));
  expect_trimmed(job);
}

JOB_TEST_NO_AGENT(the_next_agent_trims_the_events_of_a_killed_one) {
  job_start_agent(job, "--events-maxlen", "0", NULL); /* trims nothing */
  job_run(job, job_step(job, "seq", "30000", NULL));
  job_kill_agent(job);
  assert_true(entries_of(job) > 30000);
  job_start_agent(job, NULL);
  expect_trimmed(job);
}
