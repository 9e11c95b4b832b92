/* How lines leave: single lines at once, floods in batches. */

#include <sys/prctl.h>

#include "tests/support/job.h"

enum { LINES_MAX = 6000 };

/* bash prints the time and waits without another process. */
#define PACED(COUNT, SECONDS)                                                                      \
  "exec 9<> <(:); for ((i = 0; i < " COUNT "; i++)); do echo $EPOCHREALTIME; "                     \
  "read -rt " SECONDS " -u 9; done; exit 0"

static int by_value(const void *a, const void *b) {
  long long left = *(const long long *)a, right = *(const long long *)b;
  return (left > right) - (left < right);
}

/* The clock of Redis has a resolution of a millisecond. */
static long long age_of(double taken_ms, const char *line) {
  return (long long)(taken_ms + 1 - strtod(line, NULL) * 1000);
}

/* --- the bare program, which only copies lines from a pipe to a stream ------------------------ */

static void copy_lines(struct job *job, const char *script) {
  char line[64];
  int ends[2];
  redisContext *redis = redis_server_connect(job->server);
  if (pipe(ends) != 0)
    _exit(1);
  if (fork() == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setsid(); /* like a step, because the kernel may share the processor by session */
    (void)dup2(ends[1], STDOUT_FILENO);
    execlp("bash", "bash", "-c", script, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  FILE *lines = fdopen(ends[0], "r");
  while (lines != NULL && fgets(line, sizeof line, lines) != NULL)
    freeReplyObject(redisCommand(redis, "XADD bare * line %s", line));
  _exit(0);
}

static pid_t start_bare(struct job *job, const char *script) {
  job_do(job, "DEL bare");
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    copy_lines(job, script);
  }
  return pid;
}

static size_t bare_ages(struct job *job, pid_t pid, long long *ages, size_t max) {
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  redisReply *lines = job_ask(job, "XRANGE bare - +");
  assert_int_equal(lines->type, REDIS_REPLY_ARRAY);
  assert_true(lines->elements <= max);
  for (size_t i = 0; i < lines->elements; i++) {
    const redisReply *entry = lines->element[i];
    ages[i] = age_of(strtod(entry->element[0]->str, NULL), entry->element[1]->element[1]->str);
  }
  size_t count = lines->elements;
  freeReplyObject(lines);
  return count;
}

/* --- both at once ----------------------------------------------------------------------------- */

/* The age of lines when Redis took them. */
struct age {
  long long median_ms, p90_ms;
};

struct ages {
  struct age ours, bare;
};

static struct age age(const char *whose, long long *ages, size_t count, size_t expected) {
  assert_int_equal(count, expected);
  qsort(ages, count, sizeof *ages, by_value);
  struct age self = {.median_ms = ages[count / 2], .p90_ms = ages[count * 9 / 10]};
  print_message("age of %s lines: median %lld ms, 9 of 10 within %lld ms\n", whose, self.median_ms,
                self.p90_ms);
  return self;
}

/* Runs the script, which prints times, as a step and with the bare program. */
static struct ages run_for_ages(struct job *job, const char *script, size_t lines) {
  static long long ages[LINES_MAX];
  struct ages both;
  pid_t bare = start_bare(job, script);
  const cJSON *step = job_step(job, "bash", "-c", script, NULL);
  const cJSON *result = job_run_within(job, step, 3 * WAIT_BOUND_MS);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
  both.bare = age("bare", ages, bare_ages(job, bare, ages, LINES_MAX), lines);
  size_t count = 0;
  const cJSON *event;
  cJSON_ArrayForEach(event, job_events(job, step)) {
    if (strcmp(job_text(event, "kind"), "stdout") != 0)
      continue;
    assert_true(count < LINES_MAX);
    ages[count++] =
        age_of(cJSON_GetObjectItem(event, "entryMs")->valuedouble, job_text(event, "line"));
  }
  both.ours = age("the agent's", ages, count, lines);
  return both;
}

/* On a quiet machine the bare program's lines are a millisecond old. */
static bool is_near(long long ours_ms, long long bare_ms, int more_ms) {
  return ours_ms <= 3 * bare_ms + more_ms;
}

static long long executed(struct job *job, const char *command) {
  const char *line =
      strstr(job_ask_text(job, "INFO commandstats"), job_format(job, "cmdstat_%s:calls=", command));
  return line == NULL ? 0 : strtoll(strchr(line, '=') + 1, NULL, 10);
}

/* A machine delays lines now and then; a program that holds lines does so each time. */
enum { ATTEMPTS = 4 };

JOB_TEST(lines_30_ms_apart_arrive_at_once) {
  bool young = false;
  job_run(job, job_step(job, "true", NULL));
  for (int i = 0; i < ATTEMPTS && !young; i++) {
    struct ages ages = run_for_ages(job, PACED("100", "0.03"), 100);
    young = is_near(ages.ours.median_ms, ages.bare.median_ms, 3) &&
            is_near(ages.ours.p90_ms, ages.bare.p90_ms, 22);
  }
  assert_true(young);
}

JOB_TEST(ten_lines_a_second_leave_separately) {
  enum { LINES = 20 };
  bool young = false;
  job_run(job, job_step(job, "true", NULL));
  for (int i = 0; i < ATTEMPTS && !young; i++) {
    long long before = executed(job, "exec");
    struct ages ages = run_for_ages(job, PACED("20", "0.1"), LINES);
    /* `started` leaves before; the last line may wait for `completed`. */
    young = is_near(ages.ours.median_ms, ages.bare.median_ms, 3) &&
            executed(job, "exec") - before >= LINES;
  }
  assert_true(young);
}

/* Each batch except the first waits for those before it. No line waits longer than 100 ms, so that
   half of them wait at most 50 ms, even if a busy machine prints fewer lines. */
JOB_TEST_NO_AGENT(two_thousand_lines_a_second_leave_together) {
  enum { LINES = 6000, WRITES_A_SECOND = 150 };
  job_start_agent(job, "--events-maxlen", "0", NULL);
  job_run(job, job_step(job, "true", NULL));
  bool young = false;
  for (int i = 0; i < ATTEMPTS && !young; i++) {
    long long before = executed(job, "exec");
    int64_t began_ms = wait_now_ms();
    struct ages ages = run_for_ages(job, PACED("6000", "0.0004"), LINES);
    double seconds = (double)(wait_now_ms() - began_ms) / 1000;
    long long writes = executed(job, "exec") - before;
    print_message("%d lines in %.1f s: %lld writes\n", LINES, seconds, writes);
    assert_true((double)writes <= seconds * WRITES_A_SECOND + 10);
    young = is_near(ages.ours.median_ms, ages.bare.median_ms, 50);
  }
  assert_true(young);
}

JOB_TEST_NO_AGENT(a_flood_leaves_in_batches_of_hundreds) {
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

/* A single line does not wait for the next one. */
JOB_TEST(a_line_after_silence_arrives_at_once) {
  bool young = false;
  job_run(job, job_step(job, "true", NULL));
  for (int i = 0; i < ATTEMPTS && !young; i++) {
    struct ages ages = run_for_ages(job, PACED("3", "0.7"), 3);
    young = is_near(ages.ours.median_ms, ages.bare.median_ms, 17);
  }
  assert_true(young);
}
