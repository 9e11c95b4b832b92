/* Low open-file limits: the agent names a limit that is too low, and loses no output. */

#include <sys/resource.h>

#include "agent/startup.h"
#include "tests/support/job.h"

static void limit_open_files(const void *context) {
  if (setrlimit(RLIMIT_NOFILE, context) != 0)
    _exit(AGENT_PROCESS_NO_START);
}

static void set_limit(struct job *job, const struct rlimit *limit) {
  job->setup.prepare = limit_open_files;
  job->setup.prepare_context = limit;
}

JOB_TEST_NO_AGENT(a_low_soft_limit_applies_to_commands_and_loses_no_output) {
  const char *file = job_write(job, "file", "content\n", 0644);
  for (rlim_t soft = 4; soft <= 9; soft++) {
    const struct rlimit limit = {.rlim_cur = soft, .rlim_max = 4096};
    set_limit(job, &limit);
    job_start_agent(job, NULL);
    job_expect_result(job, job_run(job, job_script(job, "ulimit -Sn; ulimit -Hn")), 0, NULL,
                      job_format(job, "%d\n4096\n", (int)soft));
    const cJSON *step =
        job_own(job, cJSON_Parse(job_json(job, "{'stepId':'f%d','kind':'readFile','path':'%s'}",
                                          (int)soft, file)));
    job_expect_result(job, job_run(job, step), 0, NULL, "content\n");
    job_shut_down(job);
  }
}

JOB_TEST_NO_AGENT(a_low_hard_limit_ends_the_agent_with_an_error) {
  static const rlim_t limits[] = {4, 5, 6, 7, 8, STARTUP_OPEN_FILES_MIN - 1};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    const struct rlimit limit = {.rlim_cur = limits[i], .rlim_max = limits[i]};
    set_limit(job, &limit);
    job_start_agent(job, NULL);
    agent_process_wait_log(
        job->agent, job_format(job, "the open-file limit is %d, the agent needs at least %d; raise",
                               (int)limits[i], STARTUP_OPEN_FILES_MIN));
    job_expect_exit(job, 3);
  }
}

JOB_TEST_NO_AGENT(the_minimum_hard_limit_is_enough_for_a_step) {
  const struct rlimit limit = {.rlim_cur = STARTUP_OPEN_FILES_MIN,
                               .rlim_max = STARTUP_OPEN_FILES_MIN};
  set_limit(job, &limit);
  job_start_agent(job, NULL);
  job_expect_to_go_on(job);
  job_expect_to_go_on(job);
  job_shut_down(job);
}

static bool has_supervisor(void *job) {
  return proc_child_of(agent_process_pid(((struct job *)job)->agent), 0) != 0;
}

static void limit_supervisor(struct job *job, rlim_t open_files) {
  const struct rlimit limit = {.rlim_cur = open_files, .rlim_max = 4096};
  assert_true(wait_until(has_supervisor, job, WAIT_BOUND_MS));
  pid_t supervisor = proc_child_of(agent_process_pid(job->agent), 0);
  assert_int_equal(prlimit(supervisor, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* A command without its output would look like one that printed nothing. The larger command is sent
   as a file. */
JOB_TEST(a_step_without_descriptors_is_not_started) {
  const char *file = job_path(job, "file");
  job_expect_to_go_on(job);
  for (int i = 0; i < 2; i++) {
    const char *argument = job_format(job, "%0*d", i == 0 ? 1 : 100000, 0);
    limit_supervisor(job, 6);
    const cJSON *step =
        job_step(job, "sh", "-c", job_format(job, "touch %s", file), argument, NULL);
    job_expect_result(job, job_run(job, step), -1,
                      "cannot start a process: the open-file limit of its supervisor is 6", NULL);
    assert_int_equal(access(file, F_OK), -1);
    job_expect_to_go_on(job); /* with another supervisor */
  }
}
