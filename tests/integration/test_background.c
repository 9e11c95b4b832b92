/* A process that outlives its command, and still holds its pipes. */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* How long it delays the answer is told in tests/timed. */
JOB_TEST(an_answer_does_not_wait_for_a_holder_to_end) {
  const char *sleep = job_sleep(job, 600);
  const cJSON *step = job_script(job, job_format(job, "%s & echo hi", sleep));
  job_expect_result(job, job_run(job, step), 0, NULL, "hi\n");
  assert_string_equal(job_lines(job, step, "completed"), "exit=0 timedOut=False\n");

  pid_t holder = proc_find(sleep);
  assert_int_not_equal(holder, 0);
  agent_process_wait_log(job->agent, job_format(job, "%d", (int)holder));

  job_shut_down(job);
  assert_true(proc_wait_gone(sleep, WAIT_BOUND_MS));
}

struct counter {
  const char *path;
  long expected;
};

static bool has_counted(void *context) {
  const struct counter *counter = context;
  long count = 0;
  FILE *file = fopen(counter->path, "re");
  if (file == NULL)
    return false;
  if (fscanf(file, "%ld", &count) != 1)
    count = 0;
  fclose(file);
  return count >= counter->expected;
}

JOB_TEST(a_holder_is_not_broken_by_a_closed_pipe) {
  const char *path = job_path(job, "count");
  const char *script = job_format(
      job,
      "(i=0; while [ $i -lt 25 ]; do i=$((i+1)); echo tick $i || exit 1; echo $i >%s.new;"
      " mv %s.new %s; sleep 0.2; done) & echo hi",
      path, path, path);
  const cJSON *step = job_script(job, script);
  const cJSON *result = job_run(job, step);
  /* All that was written until then, and the answer does not wait for more. */
  job_expect_part(job, result, "outputContent", "hi\n");
  job_expect_part(job, result, "outputContent", "tick 1\n");
  assert_null(strstr(job_text(result, "outputContent"), "tick 20\n"));
  if (!wait_until(has_counted, &(struct counter){path, 25}, WAIT_BOUND_MS))
    job_fail(job, "the holder stopped counting");
}

/* A pipe holds 64 KiB; whoever writes more into it needs a reader. */
JOB_TEST(a_holder_is_not_blocked_by_a_full_pipe) {
  const char *path = job_path(job, "count");
  const char *script =
      job_format(job, "(sleep 3; seq 1000000; seq 1000000 >&2; echo 1 >%s) & echo hi", path);
  job_expect_result(job, job_run(job, job_script(job, script)), 0, NULL, "hi\n");
  if (!wait_until(has_counted, &(struct counter){path, 1}, WAIT_BOUND_MS))
    job_fail(job, "the holder is blocked");
}

JOB_TEST(later_steps_do_not_hear_a_holder) {
  const cJSON *first = job_script(job, "(while echo noise; do sleep 0.05; done) & echo hi");
  job_run(job, first);
  const cJSON *second = job_script(job, "sleep 0.5; echo clear");
  job_expect_result(job, job_run(job, second), 0, NULL, "clear\n");
  assert_string_equal(job_lines(job, second, "stdout"), "clear\n");
  /* Nor is anything said for the first step behind its own `completed`. */
  const cJSON *events = job_events(job, first);
  const cJSON *last = cJSON_GetArrayItem(events, cJSON_GetArraySize(events) - 1);
  assert_string_equal(job_text(last, "kind"), "completed");
}

JOB_TEST(a_failure_in_front_of_a_holder_is_a_failure) {
  const char *sleep = job_sleep(job, 600);
  const cJSON *step = job_script(job, job_format(job, "%s & echo bad >&2; exit 9", sleep));
  job_expect_result(job, job_run(job, step), 9, "bad", NULL);
}

/* --- what the agent itself reads of /proc ----------------------------------------------------- */

enum { CROWD = 16, CROWD_DESCRIPTORS = 8000, DAEMONS = 50, CPU_MS_MAX = 60 };

/* Never returns. Writes a byte when it has its descriptors. */
static void hold_descriptors(int ready) {
  struct rlimit limit;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  for (int i = 0; i < CROWD_DESCRIPTORS && dup(ready) >= 0; i++)
    continue;
  (void)!write(ready, "x", 1);
  for (;;)
    (void)pause();
}

static void start_crowd(pid_t pids[CROWD]) {
  for (int i = 0; i < CROWD; i++) {
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pids[i] = fork();
    assert_true(pids[i] >= 0);
    if (pids[i] == 0)
      hold_descriptors(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
  }
}

static void end_crowd(const pid_t pids[CROWD]) {
  for (int i = 0; i < CROWD; i++) {
    assert_int_equal(kill(pids[i], SIGKILL), 0);
    assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
  }
}

/* Processor time of the agent's event loop. */
static long long cpu_ms(struct job *job) {
  char *text = proc_read(agent_process_pid(job->agent), "schedstat", NULL);
  assert_non_null(text);
  long long nanoseconds = strtoll(text, NULL, 10);
  free(text);
  return nanoseconds / 1000000;
}

/* Who holds the output is looked for in the step's own tree, and not by the agent. */
JOB_TEST(descriptors_of_other_processes_and_daemons_cost_the_agent_nothing) {
  pid_t crowd[CROWD];
  const char *sleep = job_sleep(job, 600);
  const char *daemons = job_format(
      job, "i=0; while [ $i -lt %d ]; do i=$((i+1)); sleep 60 >/dev/null 2>&1 & done", DAEMONS);
  job_expect_result(job, job_run(job, job_script(job, daemons)), 0, NULL, NULL);
  start_crowd(crowd);
  const cJSON *step = job_script(job, job_format(job, "%s; %s & echo hi", daemons, sleep));
  const long long before_ms = cpu_ms(job);
  const cJSON *result = job_run_within(job, step, WAIT_BOUND_MS);
  const long long used_ms = cpu_ms(job) - before_ms;
  end_crowd(crowd);
  job_expect_result(job, result, 0, NULL, "hi\n");
  const cJSON *end = cJSON_GetObjectItem(result, "end");
  assert_int_equal(job_number(end, "survivors"), DAEMONS + 1);
  const cJSON *holder = cJSON_GetObjectItem(end, "heldBy");
  assert_int_equal(job_number(holder, "pid"), proc_find(sleep));
  assert_string_equal(job_text(holder, "command"), sleep);
  if (used_ms >= CPU_MS_MAX)
    job_fail(job, "the agent used %lld ms of processor time", used_ms);
}

JOB_TEST(shutdown_ends_the_stubborn_too) {
  const char *sleep = job_sleep(job, 600);
  const char *script = job_format(job, "trap '' TERM; setsid %s >/dev/null 2>&1 & echo hi", sleep);
  job_expect_result(job, job_run(job, job_script(job, script)), 0, NULL, "hi\n");
  assert_int_not_equal(proc_wait_for(sleep, WAIT_BOUND_MS), 0);
  job_shut_down(job);
  assert_true(proc_wait_gone(sleep, WAIT_BOUND_MS));
}

/* They have 5 s to end, also when the shutdown was there before the last step was over. */
JOB_TEST(what_is_left_may_clean_up) {
  const char *directory = redis_server_directory(job->server);
  const char *left = "trap 'sleep 2; echo clean >clean; exit' TERM; : >ready; "
                     "while :; do sleep 0.1; done";
  job_push(job, marks_step(job, job_format(job,
                                           "cd '%s'; setsid sh -c \"%s\" >/dev/null 2>&1 & until [ "
                                           "-e ready ]; do sleep 0.1; done; gate",
                                           directory, left)));
  job_push_shutdown(job);
  job_wait_length(job, "inflight", 2);
  marks_open_gate(job, "");
  job_expect_exit(job, 0);
  assert_int_equal(access(job_format(job, "%s/clean", directory), F_OK), 0);
}

TEST_OVERLAP(3)
