/* The agent in a pid namespace, as a container has one: as process 1, and below an init. */

#include <signal.h>

#include "tests/support/container.h"
#include "tests/support/events.h"
#include "tests/support/job.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

enum { SOON_MS = 8000 };

static const struct container as_first = {0};
static const struct container below_init = {.init = true};

static void start_in(struct job *job, const struct container *container) {
  job->setup.container = container;
  job_start_agent(job, NULL);
}

/* Its numbers mean other processes: it is as good as none. */
JOB_TEST_NO_AGENT(a_proc_of_another_namespace_is_not_believed) {
  static const struct container rows[] = {{.outer_proc = true}, {.init = true, .outer_proc = true}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    start_in(job, &rows[i]);
    const char *sleep = job_sleep(job, 60);
    cJSON *step = job_script(job, job_format(job, "%s & %s", sleep, sleep));
    cJSON_AddNumberToObject(step, "timeoutSeconds", 1);
    const cJSON *result = job_run_within(job, step, SOON_MS);
    job_expect_result(job, result, -1, "timed out after 1s", NULL);
    assert_true(proc_wait_gone(sleep, 1000));
    agent_process_wait_log(job->agent, "/proc");
    job_shut_down(job);
  }
}

/* That they are what they are meant to be. */
JOB_TEST_NO_AGENT(its_own_proc_is_read) {
  static const struct container *const rows[] = {&as_first, &below_init};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    start_in(job, rows[i]);
    const char *sleep = job_sleep(job, 60);
    cJSON *step = job_script(job, job_format(job, "echo $PPID; setsid %s & sleep 60", sleep));
    cJSON_AddNumberToObject(step, "timeoutSeconds", 1);
    const cJSON *result = job_run_within(job, step, SOON_MS);
    job_expect_result(job, result, -1, "timed out after 1s", i == 0 ? "1\n" : "2\n");
    assert_true(proc_wait_gone(sleep, 1000));
    job_shut_down(job);
  }
}
