/* The member `end` of a result: why the step ended, and which resources it used. */

#include "tests/support/job.h"
#include "tests/support/kind_rows.h"

#define MIB (1024.0 * 1024)

/* A directory that only this step uses. */
#define DIRECTORY "cd $(mktemp -d); "

static const cJSON *end_of(const cJSON *result) {
  return cJSON_GetObjectItem(result, "end");
}

static const cJSON *run_for_end(struct job *job, const char *script) {
  return end_of(job_run(job, job_script(job, script)));
}

static void expect_cause_alone(const cJSON *end, const char *expected) {
  assert_string_equal(job_text(end, "cause"), expected);
  assert_int_equal(cJSON_GetArraySize(end), 1);
}

/* --- causes ----------------------------------------------------------------------------------- */

JOB_TEST(a_step_that_was_not_executed_has_only_a_cause) {
  expect_cause_alone(end_of(job_run(job, job_step(job, "no-such-command", NULL))), "notStarted");
  job_push_json(job, "{'schemaVersion':1,'stepId':'1','kind':'fly'}");
  expect_cause_alone(end_of(job_result(job)), "refused");
}

JOB_TEST(the_end_names_the_signal_that_killed_the_command) {
  const cJSON *end = run_for_end(job, "ulimit -c 0; kill -SEGV $$");
  assert_string_equal(job_text(end, "cause"), "signal");
  assert_int_equal(job_number(end, "signal"), 11);
  assert_string_equal(job_text(end, "signalName"), "SIGSEGV");
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(end, "coreDumped")));
}

JOB_TEST(a_command_that_exits_has_no_signal) {
  const cJSON *end = run_for_end(job, "exit 3");
  assert_string_equal(job_text(end, "cause"), "exited");
  assert_null(cJSON_GetObjectItem(end, "signal"));
  assert_null(cJSON_GetObjectItem(end, "alive"));
  assert_null(cJSON_GetObjectItem(end, "heldBy"));
  assert_int_equal(job_number(end, "survivors"), 0);
}

JOB_TEST(a_step_cancelled_while_it_waits_has_only_a_cause) {
  const cJSON *first = job_push_until(job, job_script(job, "echo up; sleep 600.201"), "up");
  const cJSON *second = job_push_echo(job, "never");
  job_push_cancel(job, second);
  expect_cause_alone(end_of(job_result_of(job, second)), "cancelled");
  job_push_cancel(job, first);
  const cJSON *end = end_of(job_result_of(job, first));
  assert_string_equal(job_text(end, "cause"), "cancelled");
  assert_true(job_number(end, "processes") >= 1);
}

JOB_TEST(the_step_of_a_killed_agent_is_lost) {
  const cJSON *step = job_push_until(job, job_script(job, "echo up; sleep 600.202"), "up");
  job_kill_agent(job);
  job_start_agent(job, NULL);
  expect_cause_alone(end_of(job_result_of(job, step)), "lost");
}

/* --- usage ------------------------------------------------------------------------------------ */

/* The supervisor waits for orphans; the orphan must be dead to be counted. */
JOB_TEST(the_usage_counts_the_whole_process_tree) {
  const cJSON *end = run_for_end(
      job, DIRECTORY "(dd if=/dev/zero of=/dev/null bs=64M count=8 2>/dev/null & echo $! >pid) &"
                     "until [ -s pid ]; do :; done; read p <pid; while kill -0 $p 2>/dev/null; do "
                     ":; done; rm -r $PWD");
  assert_true(job_number(end, "maxRssBytes") > 48 * MIB);
  assert_true(job_number(end, "maxRssBytes") < 128 * MIB);
  assert_true(job_number(end, "systemCpuSeconds") + job_number(end, "userCpuSeconds") > 0);
  assert_true(job_number(end, "voluntarySwitches") + job_number(end, "involuntarySwitches") > 0);
  assert_true(job_number(end, "processes") >= 2);
  assert_int_equal(job_number(end, "survivors"), 0);
}

/* Until it executes its command, a process has the size of its supervisor, which sanitizers make
   large. */
static void expect_small(const cJSON *end) {
  const cJSON *size = cJSON_GetObjectItem(end, "maxRssBytes");
  const double most = agent_process_is_shipped() ? 6 * MIB : 48 * MIB;
  assert_true(size == NULL || size->valuedouble < most);
}

JOB_TEST(each_step_has_its_own_usage) {
  assert_true(job_number(run_for_end(job, "dd if=/dev/zero of=/dev/null bs=64M count=1 2>&1"),
                         "maxRssBytes") > 48 * MIB);
  const cJSON *end = run_for_end(job, "true");
  expect_small(end);
  assert_int_equal(job_number(end, "processes"), 1);
}

JOB_TEST(a_step_does_not_get_the_resident_size_of_another_step) {
  char *path = job_path(job, "f");
  (void)job_run(job, job_script(job, job_format(job, "head -c 4194304 /dev/zero >%s", path)));
  (void)job_run(job, kind_rows_step(job, job_format(job, "'kind':'readBytes','path':'%s'", path)));
  expect_small(run_for_end(job, "true"));
}

JOB_TEST(the_usage_counts_bytes_written_to_storage) {
  const cJSON *end =
      run_for_end(job, DIRECTORY "dd if=/dev/zero of=f bs=1M count=8 conv=fsync 2>&1; rm -r $PWD");
  assert_true(job_number(end, "writtenBytes") >= 8 * MIB);
}

JOB_TEST(a_file_kind_has_no_resident_size) {
  kind_rows_file(job, "f", "text");
  const cJSON *end = end_of(job_run(job, kind_rows_step(job, "'kind':'readFile','path':'f'")));
  assert_string_equal(job_text(end, "cause"), "exited");
  assert_null(cJSON_GetObjectItem(end, "maxRssBytes"));
  assert_int_equal(job_number(end, "processes"), 1);
}

/* --- processes that were alive, and that are left --------------------------------------------- */

static const cJSON *find_alive(const cJSON *end, const char *command) {
  const cJSON *process;
  cJSON_ArrayForEach(process, cJSON_GetObjectItem(end, "alive")) {
    if (strcmp(job_text(process, "command"), command) == 0)
      return process;
  }
  fail_msg("%s was not alive: %s", command, cJSON_PrintUnformatted(end));
  return NULL;
}

JOB_TEST(the_end_lists_processes_that_ran_at_the_deadline) {
  static const char script[] = "sleep 600.203 & setsid sleep 600.204 & sleep 600.205";
  cJSON *step = job_script(job, script);
  cJSON_AddNumberToObject(step, "timeoutSeconds", 3);
  const cJSON *end = end_of(job_run(job, step));
  assert_string_equal(job_text(end, "cause"), "timeout");
  const cJSON *child = find_alive(end, "sleep 600.203");
  (void)find_alive(end, "sleep 600.204");
  const cJSON *shell = find_alive(end, job_format(job, "sh -c %s", script));
  assert_int_equal(job_number(child, "parent"), job_number(shell, "pid"));
  assert_string_equal(job_text(child, "state"), "S");
  assert_string_equal(job_text(child, "wait"), "hrtimer_nanosleep");
  assert_string_equal(job_text(child, "syscall"), "clock_nanosleep");
  assert_true(job_number(child, "rssBytes") > 0);
  assert_true(job_number(child, "ageSeconds") >= 0.5 && job_number(child, "ageSeconds") < 60);
  assert_true(job_number(child, "cpuSeconds") < 1);
  assert_int_equal(job_number(end, "survivors"), 0);
}

JOB_TEST(the_end_lists_the_32_largest_processes) {
  const cJSON *step = job_push_until(
      job,
      job_script(job, "i=0; while [ $i -lt 40 ]; do sleep 600.206 & i=$((i+1)); done; "
                      "dd if=/dev/zero bs=32M count=2 2>/dev/null | sleep 600.207 &"
                      "until [ $(grep -c . /proc/$$/task/$$/children) ]; do :; done; "
                      "echo up; wait"),
      "up");
  assert_true(proc_wait_for("dd if=/dev/zero bs=32M count=2", WAIT_BOUND_MS) > 0);
  job_push_cancel(job, step);
  const cJSON *alive = cJSON_GetObjectItem(end_of(job_result_of(job, step)), "alive");
  assert_int_equal(cJSON_GetArraySize(alive), 32);
  for (const cJSON *process = alive->child; process->next != NULL; process = process->next)
    assert_true(job_number(process, "rssBytes") >= job_number(process->next, "rssBytes"));
}

JOB_TEST(the_end_counts_background_processes) {
  const cJSON *end = run_for_end(job, "sleep 600.208 & sleep 600.209 >/dev/null 2>&1 & exit 0");
  assert_string_equal(job_text(end, "cause"), "exited");
  assert_int_equal(job_number(end, "survivors"), 2);
  assert_int_equal(job_number(end, "processes"), 3);
  const cJSON *holder = cJSON_GetObjectItem(end, "heldBy");
  assert_string_equal(job_text(holder, "command"), "sleep 600.208");
  assert_int_equal(job_number(holder, "pid"), proc_find("sleep 600.208"));
}
