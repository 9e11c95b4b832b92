/* Processes that outlive their command and still hold its pipes. */

#include "tests/support/job.h"
#include "tests/support/marks.h"

struct counter {
  const char *path;
  long expected;
};

static long count_of(const char *path) {
  long count = 0;
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return 0;
  if (fscanf(file, "%ld", &count) != 1)
    count = 0;
  fclose(file);
  return count;
}

static bool has_counted(void *context) {
  const struct counter *counter = context;
  return count_of(counter->path) >= counter->expected;
}

JOB_TEST(a_background_process_may_continue_to_write) {
  const char *path = job_path(job, "count");
  const char *script = job_format(
      job,
      "(i=0; while echo tick $i; do i=$((i+1)); echo $i >%s.new; mv %s.new %s; sleep 0.1; done)"
      " & echo hi",
      path, path, path);
  const cJSON *step = job_script(job, script);
  const cJSON *result = job_run(job, step);
  /* The result has the output so far, and the process continues. */
  job_expect_part(job, result, "outputContent", "hi\n");
  if (!wait_until(has_counted, &(struct counter){path, count_of(path) + 10}, WAIT_BOUND_MS))
    job_fail(job, "the background process has stopped");
}

/* A pipe holds 64 KiB; a process that writes more needs a reader. */
JOB_TEST(a_background_process_is_not_blocked_by_a_full_pipe) {
  const char *path = job_path(job, "count");
  const char *script =
      job_format(job, "(gate; seq 1000000; seq 1000000 >&2; echo 1 >%s) & echo hi", path);
  job_expect_result(job, job_run(job, marks_step(job, script)), 0, NULL, "hi\n");
  marks_open_gate(job, "");
  if (!wait_until(has_counted, &(struct counter){path, 1}, WAIT_BOUND_MS))
    job_fail(job, "the background process is blocked");
}

JOB_TEST(later_steps_do_not_get_the_output_of_a_background_process) {
  const cJSON *first = job_script(job, "(while echo noise; do sleep 0.05; done) & echo hi");
  job_run(job, first);
  const cJSON *second = job_script(job, "sleep 0.5; echo clear");
  job_expect_result(job, job_run(job, second), 0, NULL, "clear\n");
  assert_string_equal(job_lines(job, second, "stdout"), "clear\n");
  /* The first step has no event after `completed`. */
  const cJSON *events = job_events(job, first);
  const cJSON *last = cJSON_GetArrayItem(events, cJSON_GetArraySize(events) - 1);
  assert_string_equal(job_text(last, "kind"), "completed");
}

JOB_TEST(a_command_with_a_background_process_can_fail) {
  const char *sleep = job_sleep(job, 600);
  const cJSON *step = job_script(job, job_format(job, "%s & echo bad >&2; exit 9", sleep));
  job_expect_result(job, job_run(job, step), 9, "bad", NULL);
}

JOB_TEST(background_processes_have_5_s_to_end_at_a_shutdown) {
  enum { GRACE_MS = 5000 };
  const char *directory = redis_server_directory(job->server);
  const char *left = "trap 'sleep 2; echo clean >clean; exit' TERM; : >ready; "
                     "while :; do sleep 0.1; done";
  job_push(job, marks_step(job, job_format(job,
                                           "cd '%s'; setsid sh -c \"%s\" >/dev/null 2>&1 & until [ "
                                           "-e ready ]; do sleep 0.1; done; gate",
                                           directory, left)));
  job_push_shutdown(job);
  job_wait_length(job, "inflight", 2);
  int64_t begin_ms = wait_now_ms();
  marks_open_gate(job, "");
  job_expect_exit(job, 0);
  /* Its two seconds may take more than five on a busy machine. */
  assert_true(access(job_format(job, "%s/clean", directory), F_OK) == 0 ||
              wait_now_ms() - begin_ms >= GRACE_MS);
}

TEST_OVERLAP(3)
