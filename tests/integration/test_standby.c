/* The child that waits for the next step that only reads: its answers are those of a fork, and
   whatever happens to it costs no step its answer. */

#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/process/process.h"
#include "tests/support/events.h"
#include "tests/support/hanging_mount.h"
#include "tests/support/injection.h"
#include "tests/support/kind_rows.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define STANDBY "/proc/self/exe --standby"

/* Returns its pid once it waits for its input. */
static pid_t wait_for_standby(struct job *job) {
  pid_t pid = proc_wait_for(STANDBY, WAIT_BOUND_MS);
  if (pid <= 0)
    job_fail(job, "there is no standby");
  return pid;
}

static void read_file(struct job *job) {
  static const struct kind_row row = {"'kind':'readFile','path':'file'", 0, "content\n", NULL};
  kind_rows_run(job, &row, 1);
}

static void set_up_file(struct job *job) {
  kind_rows_file(job, "file", "content\n");
  job_start_agent(job, NULL);
  read_file(job);
}

/* A step that is too long for its input is executed by a fork; those around it are not. */
JOB_TEST_NO_AGENT(its_answers_are_those_of_a_fork) {
  set_up_file(job);
  static const struct kind_row rows[] = {
      {"'kind':'readFile','path':'file','withLineNumbers':true", 0, "1\tcontent\n2\t", NULL},
      {"'kind':'readFile','path':'none'", 1, NULL, "file not found: $D/none"},
      {"'kind':'grep','path':'file','pattern':'none'", 0, "[]", NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    (void)wait_for_standby(job);
    kind_rows_run(job, &rows[i], 1);
    struct kind_row longer = rows[i];
    longer.fields = job_format(job, "%s,'padding':'%0*d'", rows[i].fields, PROCESS_INPUT_MAX, 0);
    kind_rows_run(job, &longer, 1);
  }
}

/* Git's own ignore file is in the directory of the agent's user. */
JOB_TEST_NO_AGENT(it_knows_where_git_has_its_files) {
  kind_rows_file(job, "home/.config/git/ignore", "file\n");
  kind_rows_file(job, ".git/HEAD", "");
  const char *home = getenv("HOME");
  char *before = home != NULL ? strdup(home) : NULL;
  assert_int_equal(setenv("HOME", kind_rows_path(job, "home"), 1), 0);
  set_up_file(job);
  assert_int_equal(before != NULL ? setenv("HOME", before, 1) : unsetenv("HOME"), 0);
  free(before);
  struct kind_row row = {"'kind':'grep','path':'.','pattern':'content','searchHidden':false", 0,
                         "[]",
                         "grep left out 1 directories and 1 files that are hidden or ignored"};
  (void)wait_for_standby(job);
  kind_rows_run(job, &row, 1);
  row.fields = job_format(job, "%s,'padding':'%0*d'", row.fields, PROCESS_INPUT_MAX, 0);
  kind_rows_run(job, &row, 1);
}

JOB_TEST_NO_AGENT(a_killed_one_costs_no_answer) {
  set_up_file(job);
  for (int i = 0; i < 20; i++) {
    pid_t pid = wait_for_standby(job);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_true(proc_wait_pid_gone(pid, WAIT_BOUND_MS));
    read_file(job);
  }
}

/* Stopped, so that it has its step, and has done nothing for it. */
JOB_TEST_NO_AGENT(what_it_did_not_do_is_done_by_a_fork) {
  set_up_file(job);
  pid_t pid = wait_for_standby(job);
  assert_int_equal(kill(pid, SIGSTOP), 0);
  const cJSON *step = kind_rows_step(job, "'kind':'readFile','path':'file'");
  job_push(job, step);
  events_wait(job, step, "started", "readFile file");
  assert_int_equal(kill(pid, SIGKILL), 0);
  job_expect_answer(job, step, 0, NULL, "content\n");
  assert_string_equal(events_lines(job, step, "completed"), "exit=0 timedOut=False\n");
}

/* A step that kills all it can see kills it too, in vain. */
JOB_TEST_NO_AGENT(it_survives_no_step_and_costs_none) {
  set_up_file(job);
  for (int i = 0; i < 5; i++) {
    pid_t pid = wait_for_standby(job);
    const cJSON *step = job_script(job, job_format(job, "kill -KILL %d; echo done", (int)pid));
    job_expect_result(job, job_run(job, step), 0, NULL, "done\n");
    read_file(job);
  }
}

JOB_TEST_NO_AGENT(a_cancelled_step_leaves_it_alone) {
  set_up_file(job);
  pid_t pid = wait_for_standby(job);
  const cJSON *running = job_script(job, job_format(job, "echo up; exec %s", job_sleep(job, 600)));
  job_push(job, running);
  events_wait(job, running, "stdout", "up");
  job_push_cancel(job, running);
  job_expect_answer(job, running, -1, "cancelled: by a cancel step", "up\n");
  assert_int_equal(proc_find(STANDBY), pid);
  read_file(job);
}

/* No answer to a step is to be forged in the process that will give it, nor its memory read. */
JOB_TEST_NO_AGENT(no_other_process_may_attach_to_it) {
  set_up_file(job);
  struct stat status;
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)wait_for_standby(job));
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_uid, 0); /* whoever runs it: not dumpable, proc(5) */
}

JOB_TEST_NO_AGENT(it_ends_with_the_agent) {
  set_up_file(job);
  pid_t pid = wait_for_standby(job);
  assert_int_equal(kill(agent_process_pid(job->agent), SIGKILL), 0);
  assert_true(proc_wait_pid_gone(pid, WAIT_BOUND_MS));
  agent_process_free(job->agent);
  job->agent = NULL;
  job_do(job, "DEL sandbox:%s:inflight", job->id);
  job_start_agent(job, NULL);
  read_file(job);
  pid = wait_for_standby(job);
  job_shut_down(job);
  assert_true(proc_wait_pid_gone(pid, WAIT_BOUND_MS));
}

/* Also where a program that runs already may not be executed again. */
JOB_TEST_NO_AGENT(where_there_can_be_none_a_fork_answers) {
  const char *copy = job_path(job, "agent");
  injection_has_succeeded(agent_process_start(
      &(struct agent_setup){.arguments = (const char *[]){"--inject", copy, NULL}}));
  job->setup.program = copy;
  kind_rows_file(job, "file", "content\n");
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "true", NULL));
  assert_int_equal(chmod(copy, 0), 0);
  for (int i = 0; i < 3; i++)
    read_file(job);
  assert_int_equal(proc_find(STANDBY), 0);
}

static struct hanging_mount hanging;

/* It must go before the directory that it is in, also when the test has failed. */
static int release_mount(void **state) {
  hanging_mount_release(&hanging);
  return job_teardown(state);
}

TEST(a_mount_that_hangs_ends_the_step_alone, job_setup_server, release_mount) {
  struct job *job = *state;
  const char *path = kind_rows_path(job, "mount");
  assert_int_equal(mkdir(path, 0777), 0);
  hanging_mount_init(&hanging, path);
  set_up_file(job);
  (void)wait_for_standby(job);
  const cJSON *step = kind_rows_step(job, "'kind':'readFile','path':'mount/x'");
  job_push(job, step);
  events_wait(job, step, "started", "readFile mount/x");
  job_push_cancel(job, step);
  job_expect_answer(job, step, -1, "cancelled: by a cancel step", NULL);
  hanging_mount_release(&hanging);
  read_file(job);
  job_shut_down(job);
}

TEST_GROUP(injection_begin_group, NULL)
