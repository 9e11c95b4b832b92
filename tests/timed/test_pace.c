/* How lines leave: at once where they come singly, together where they come in a flood. */

#include "tests/support/job.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* bash tells the time, and waits, without a process. */
#define PACED(COUNT, SECONDS)                                                                      \
  "exec 9<> <(:); for ((i = 0; i < " COUNT "; i++)); do echo $EPOCHREALTIME; "                     \
  "read -rt " SECONDS " -u 9; done; exit 0"

static int by_value(const void *a, const void *b) {
  long long left = *(const long long *)a, right = *(const long long *)b;
  return (left > right) - (left < right);
}

/* Runs the script, whose lines are times; how old each was when Redis took it, in order of age. */
static size_t run_for_ages(struct job *job, const char *script, long long *ages, size_t max) {
  const cJSON *step = job_step(job, "bash", "-c", script, NULL);
  const cJSON *result = job_run_within(job, step, 3 * WAIT_BOUND_MS);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
  size_t count = 0;
  const cJSON *event;
  cJSON_ArrayForEach(event, job_events(job, step)) {
    if (strcmp(job_text(event, "kind"), "stdout") != 0)
      continue;
    double taken = cJSON_GetObjectItem(event, "entryMs")->valuedouble;
    assert_true(count < max);
    /* Redis' clock is a millisecond coarse. */
    ages[count++] = (long long)(taken + 1 - strtod(job_text(event, "line"), NULL) * 1000);
  }
  qsort(ages, count, sizeof *ages, by_value);
  return count;
}

static long long executed(struct job *job, const char *command) {
  const char *line =
      strstr(job_ask_text(job, "INFO commandstats"), job_format(job, "cmdstat_%s:calls=", command));
  return line == NULL ? 0 : strtoll(strchr(line, '=') + 1, NULL, 10);
}

/* A busy machine delays lines now and then; a program that keeps them does so each time. */
enum { ATTEMPTS = 4, MEDIAN_MS = 3 };

JOB_TEST(lines_30_ms_apart_arrive_at_once) {
  enum { LINES = 100, P90_MS = 25 };
  long long ages[LINES];
  bool young = false;
  job_run(job, job_step(job, "true", NULL));
  for (int i = 0; i < ATTEMPTS && !young; i++) {
    assert_int_equal(run_for_ages(job, PACED("100", "0.03"), ages, LINES), LINES);
    print_message("age in ms: median %lld, p95 %lld\n", ages[LINES / 2], ages[LINES * 95 / 100]);
    young = ages[LINES / 2] <= MEDIAN_MS && ages[LINES * 9 / 10] <= P90_MS;
  }
  assert_true(young);
}

JOB_TEST(ten_lines_a_second_leave_alone) {
  enum { LINES = 20 };
  long long ages[LINES];
  bool young = false;
  job_run(job, job_step(job, "true", NULL));
  for (int i = 0; i < ATTEMPTS && !young; i++) {
    long long before = executed(job, "exec");
    assert_int_equal(run_for_ages(job, PACED("20", "0.1"), ages, LINES), LINES);
    /* `started` goes before; the last line may wait for `completed`. */
    young = ages[LINES / 2] <= MEDIAN_MS && executed(job, "exec") - before >= LINES;
  }
  assert_true(young);
}

/* Each batch but the first waits for those before it. */
JOB_TEST_NO_AGENT(two_thousand_lines_a_second_leave_together) {
  enum { LINES = 6000, WRITES_A_SECOND = 150 };
  static long long ages[LINES];
  job_start_agent(job, "--events-maxlen", "0", NULL);
  job_run(job, job_step(job, "true", NULL));
  long long before = executed(job, "exec");
  int64_t began_ms = wait_now_ms();
  assert_int_equal(run_for_ages(job, PACED("6000", "0.0004"), ages, LINES), LINES);
  double seconds = (double)(wait_now_ms() - began_ms) / 1000;
  long long writes = executed(job, "exec") - before;
  print_message("%d lines in %.1f s: %lld writes, median age %lld ms\n", LINES, seconds, writes,
                ages[LINES / 2]);
  assert_true((double)writes <= seconds * WRITES_A_SECOND + 10);
  assert_true(ages[LINES / 2] <= 40);
}

JOB_TEST_NO_AGENT(a_flood_leaves_by_the_thousand) {
  enum { LINES = 300000, LINES_A_WRITE = 500 };
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "true", NULL));
  long long writes = executed(job, "exec"), lines = executed(job, "xadd");
  const cJSON *step = job_step(job, "seq", job_format(job, "%d", LINES), NULL);
  const cJSON *result = job_run_within(job, step, 3 * WAIT_BOUND_MS);
  assert_int_equal(job_event_count(result), LINES + 2);
  writes = executed(job, "exec") - writes;
  lines = executed(job, "xadd") - lines;
  print_message("%lld events in %lld writes\n", lines, writes);
  assert_int_equal(lines, LINES + 2);
  assert_true(lines >= LINES_A_WRITE * writes);
}

/* A line that is alone is not kept for the next one either. */
JOB_TEST(a_line_after_silence_arrives_at_once) {
  enum { LINES = 3 };
  long long ages[LINES];
  job_run(job, job_step(job, "true", NULL));
  assert_int_equal(run_for_ages(job, PACED("3", "0.7"), ages, LINES), LINES);
  assert_true(ages[LINES / 2] <= 20);
}
