/* A process that is always a new one, in a new session, is ended too: at the deadline, and at
   shutdown. */

#include <sys/stat.h>

#include "tests/support/job.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* How long a runaway is watched for another step; it takes one in well under a millisecond. */
enum { WATCH_MS = 500 };

static int setup(void **state) {
  job_setup(state);
  struct job *job = *state;
  const char *compiler = getenv("CC");
  const char *command =
      job_format(job, "%s -O1 -o %s tests/integration/runaway_command.c",
                 compiler == NULL || *compiler == '\0' ? "cc" : compiler, job_path(job, "runaway"));
  assert_int_equal(system(command), 0);
  return 0;
}

struct trace {
  const char *path;
  off_t size;
};

static bool has_grown(void *context) {
  const struct trace *trace = context;
  struct stat now;
  return stat(trace->path, &now) == 0 && now.st_size > trace->size;
}

static void expect_ended(const char *path) {
  struct stat now;
  assert_int_equal(stat(path, &now), 0);
  assert_false(wait_until(has_grown, &(struct trace){path, now.st_size}, WATCH_MS));
}

TEST_OF(struct job *job, at_the_deadline, setup, job_teardown) {
  const char *path = job_path(job, "trace");
  cJSON *step =
      job_script(job, job_format(job, "env -i %s %s & sleep 60", job_path(job, "runaway"), path));
  cJSON_AddNumberToObject(step, "timeoutSeconds", 1);
  job_expect_result(job, job_run_within(job, step, 13000), -1, "timed out after 1s", NULL);
  expect_ended(path);
}

TEST_OF(struct job *job, at_shutdown, setup, job_teardown) {
  const char *path = job_path(job, "trace");
  const char *script =
      job_format(job, "env -i %s %s >/dev/null 2>&1 &", job_path(job, "runaway"), path);
  job_expect_result(job, job_run(job, job_script(job, script)), 0, NULL, NULL);
  assert_true(wait_until(has_grown, &(struct trace){path, 0}, WAIT_BOUND_MS));
  job_shut_down(job);
  expect_ended(path);
}
