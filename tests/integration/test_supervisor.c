/* The supervisor, the child that starts the processes of a step and watches them. Whatever a step
   does to it, each step is answered, and no process survives. */

#include <sys/mount.h>

#include "tests/support/injection.h"
#include "tests/support/job.h"
#include "tests/support/kind_rows.h"

static pid_t agent_of(const struct job *job) {
  return agent_process_pid(job->agent);
}

static bool has_supervisor(void *job) {
  return proc_child_of(agent_of(job), 0) != 0;
}

/* Returns the pid of the agent's only child. */
static pid_t wait_for_supervisor(struct job *job) {
  if (!wait_until(has_supervisor, job, WAIT_BOUND_MS))
    job_fail(job, "there is no supervisor");
  return proc_child_of(agent_of(job), 0);
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

/* Git's user-wide ignore file is in the home directory of the agent's user. */
JOB_TEST_NO_AGENT(a_supervisor_finds_the_ignore_file_of_git) {
  kind_rows_file(job, "home/.config/git/ignore", "file\n");
  kind_rows_file(job, ".git/HEAD", "");
  const char *home = getenv("HOME");
  char *before = home != NULL ? strdup(home) : NULL;
  assert_int_equal(setenv("HOME", kind_rows_path(job, "home"), 1), 0);
  set_up_file(job);
  assert_int_equal(before != NULL ? setenv("HOME", before, 1) : unsetenv("HOME"), 0);
  free(before);
  const struct kind_row row = {"'kind':'grep','path':'.','pattern':'content','searchHidden':false",
                               0, "[]",
                               "grep left out 1 directory and 1 file that are hidden or ignored\n"
                               "grep did not search 1 directory that is always left out: .git"};
  (void)wait_for_supervisor(job);
  kind_rows_run(job, &row, 1);
}

JOB_TEST_NO_AGENT(a_killed_idle_supervisor_costs_no_result) {
  set_up_file(job);
  for (int i = 0; i < 20; i++) {
    pid_t pid = wait_for_supervisor(job);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_true(proc_wait_pid_gone(pid, WAIT_BOUND_MS));
    read_file(job);
  }
}

/* The step is answered whether it had started or not, and no process is left. */
JOB_TEST_NO_AGENT(a_step_dies_with_its_supervisor) {
  set_up_file(job);
  for (int i = 0; i < 5; i++) {
    const char *sleep = job_sleep(job, 600);
    const cJSON *step =
        job_script(job, job_format(job,
                                   "(setsid env -i sh -c '%s & %s' &); setsid %s & "
                                   "while [ $(pgrep -fc '^%s') -lt 3 ]; do :; done; "
                                   "kill -KILL $PPID; %s",
                                   sleep, sleep, sleep, sleep, sleep));
    job_expect_result(job, job_run(job, step), 137, "killed by signal 9 (SIGKILL)", NULL);
    assert_int_equal(proc_find(sleep), 0);
    read_file(job);
  }
}

JOB_TEST_NO_AGENT(a_supervisor_stopped_by_a_step_continues) {
  set_up_file(job);
  const cJSON *step = job_script(job, "kill -STOP $PPID; exit 3");
  job_expect_part(job, job_run(job, step), "errorMessage", "exited with code 3 and wrote nothing");
  read_file(job);
}

/* A step sends signals to its supervisor and to the agent. */
#define SEND_THREAD_SIGNALS                                                                        \
  "agent=$(sed 's/.*) . \\([0-9]*\\) .*/\\1/' /proc/$PPID/stat); "                                 \
  "for i in 32 33 34; do kill -$i $PPID $agent; done; echo $PPID"

/* The C libraries use 32 to 34 for threads. A write blocks and restores signals in the supervisor,
   and a thread of the agent resolves the host name. */
JOB_TEST_NO_AGENT(signals_of_threads_end_neither_the_supervisor_nor_the_agent) {
  job->url = job_format(job, "%s://%slocalhost:%d", redis_server_scheme(), redis_server_login(),
                        redis_server_port(job->server));
  set_up_file(job);
  static const struct kind_row write = {"'kind':'writeFile','path':'new','content':'x'", 0, NULL,
                                        NULL};
  const char *supervisor = job_format(job, "%d\n", (int)wait_for_supervisor(job));
  for (int i = 0; i < 3; i++) {
    job_expect_result(job, job_run(job, job_script(job, SEND_THREAD_SIGNALS)), 0, NULL, supervisor);
    kind_rows_run(job, &write, 1);
    job_do(job, "CLIENT KILL TYPE normal SKIPME yes");
    read_file(job);
  }
  job_shut_down(job);
}

/* No process may forge a result in the supervisor, or read its memory. */
JOB_TEST_NO_AGENT(no_other_process_may_attach_to_a_supervisor) {
  set_up_file(job);
  struct stat status;
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)wait_for_supervisor(job));
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_uid, 0); /* owned by root if not dumpable, proc(5) */
}

JOB_TEST_NO_AGENT(a_supervisor_ends_with_the_agent) {
  set_up_file(job);
  pid_t pid = wait_for_supervisor(job);
  assert_int_equal(kill(agent_process_pid(job->agent), SIGKILL), 0);
  assert_true(proc_wait_pid_gone(pid, WAIT_BOUND_MS));
  agent_process_free(job->agent);
  job->agent = NULL;
  job_do(job, "DEL sandbox:%s:inflight", job->id);
  job_start_agent(job, NULL);
  read_file(job);
  pid = wait_for_supervisor(job);
  job_shut_down(job);
  assert_true(proc_wait_pid_gone(pid, WAIT_BOUND_MS));
}

/* ps(1) shows the owner, and none of the agent's flags. */
JOB_TEST_NO_AGENT(the_title_of_a_supervisor_names_job_and_agent) {
  set_up_file(job);
  char expected[64];
  size_t length;
  char *title = proc_read(wait_for_supervisor(job), "cmdline", &length);
  assert_non_null(title);
  assert_int_equal(strlen(title) == length || title[length - 1] == '\0', true);
  const char *pid = strrchr(title, ' ');
  (void)snprintf(expected, sizeof expected, " %d", (int)agent_of(job));
  assert_non_null(pid);
  assert_string_equal(pid, expected);
  assert_memory_equal(title, "agent-supervise ", strlen("agent-supervise "));
  assert_int_equal(pid - title, strlen("agent-supervise 01234567"));
  free(title);
}

/* The program may not exist any more. */
JOB_TEST_NO_AGENT(a_supervisor_does_not_need_the_program_file) {
  const char *copy = job_path(job, "agent");
  injection_expect_success(agent_process_start(
      &(struct agent_setup){.arguments = (const char *[]){"--inject", copy, NULL}}));
  job->setup.program = copy;
  set_up_file(job);
  pid_t pid = wait_for_supervisor(job);
  assert_int_equal(unlink(copy), 0);
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_true(proc_wait_pid_gone(pid, WAIT_BOUND_MS));
  for (int i = 0; i < 3; i++)
    read_file(job);
  job_expect_result(job, job_run(job, job_script(job, "echo up")), 0, NULL, "up\n");
}

TEST_GROUP(injection_begin_group, NULL)
/* A step without a policy lowers the limit of its supervisor to what a message needs. */
JOB_TEST(a_supervisor_that_cannot_confine_a_step_is_replaced) {
  const cJSON *result = NULL;
  (void)job_run(job, job_script(job, "prlimit --pid $PPID --nofile=8:8"));
  for (int i = 0; i < 2; i++) {
    cJSON *step = job_step(job, "true", NULL);
    assert_true(cJSON_AddItemToObject(step, "fence", cJSON_CreateObject()));
    result = job_run(job, step);
    if (i == 0)
      job_expect_part(job, result, "errorMessage", "fence: a Landlock rule set: ");
  }
  job_expect_result(job, result, 0, NULL, NULL);
}
