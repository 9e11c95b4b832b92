/* Steps that use up the memory of their container, which the kernel limits. */
#include "tests/support/faked_group.h"
#include "tests/support/job.h"
#include "tests/support/memory_group.h"

#define MIB (1024.0 * 1024)

static const cJSON *end_of(const cJSON *result) {
  return cJSON_GetObjectItem(result, "end");
}

/* --- the kernel kills ------------------------------------------------------------------------- */

struct limited {
  struct job *job;
  struct memory_group group;
};

static int set_up_limited(void **state) {
  struct limited *self = calloc(1, sizeof *self);
  assert_non_null(self);
  void *job;
  (void)job_setup_server(&job);
  self->job = job;
  memory_group_init(&self->group, 48 * 1024 * 1024);
  self->job->setup.prepare = memory_group_enter;
  self->job->setup.prepare_context = &self->group;
  *state = self;
  return 0;
}

static int tear_down_limited(void **state) {
  struct limited *self = *state;
  void *job = self->job;
  (void)job_teardown(&job);
  memory_group_release(&self->group);
  free(self);
  return 0;
}

#define LIMITED_TEST(NAME)                                                                         \
  TEST_WITH(struct limited *limited, NAME, set_up_limited, tear_down_limited)

#define EATER "dd if=/dev/zero of=/dev/null bs=96M count=1"

LIMITED_TEST(the_result_explains_an_out_of_memory_kill) {
  job_start_agent(limited->job, NULL);
  const cJSON *result = job_run(limited->job, job_script(limited->job, "exec " EATER));
  job_expect_result(limited->job, result, 137,
                    "killed by signal 9 (SIGKILL): out of memory, the container has 48 MiB", NULL);
  agent_process_wait_log(limited->job->agent, "`: out of memory");
  const cJSON *end = end_of(result);
  assert_string_equal(job_text(end, "cause"), "signal");
  assert_int_equal(job_number(end, "oomKills"), 1);
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(end, "oomKilled")));
  const cJSON *memory = cJSON_GetObjectItem(end, "memory");
  assert_int_equal(job_number(memory, "limitBytes"), 48 * MIB);
  assert_true(job_number(memory, "peakBytes") > 40 * MIB);
  job_expect_to_go_on(limited->job);
}

LIMITED_TEST(the_result_explains_the_out_of_memory_kill_of_a_child) {
  job_start_agent(limited->job, NULL);
  const cJSON *result =
      job_run(limited->job, job_script(limited->job, "echo begin; " EATER " 2>&-; exit 1"));
  job_expect_result(limited->job, result, 1,
                    "exited with code 1: out of memory, the container has 48 MiB\nbegin",
                    "begin\n");
  assert_string_equal(job_text(end_of(result), "cause"), "exited");
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(end_of(result), "oomKilled")));
}

LIMITED_TEST(a_step_that_succeeds_only_counts_out_of_memory_kills) {
  job_start_agent(limited->job, NULL);
  const cJSON *result = job_run(limited->job, job_script(limited->job, EATER " 2>&-; exit 0"));
  job_expect_result(limited->job, result, 0, NULL, NULL);
  assert_int_equal(job_number(end_of(result), "oomKills"), 1);
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(end_of(result), "oomKilled")));
  result = job_run(limited->job, job_script(limited->job, "exit 7"));
  assert_int_equal(job_number(end_of(result), "oomKills"), 0);
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(end_of(result), "oomKilled")));
}

/* --- the guard ends a step first -------------------------------------------------------------- */

#define GUARDED "--memory-reserve", "16777216"

static void expect_memory_limit(struct job *job, const cJSON *result) {
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 137);
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(result, "timedOut")));
  job_expect_part(job, result, "errorMessage", "the container's memory was exhausted (");
  job_expect_part(job, result, "errorMessage", " of 48 MiB); the step was killed");
  assert_string_equal(job_text(end_of(result), "cause"), "memoryLimit");
}

/* A command that allocates slowly enough for the guard to act in time on a busy machine. */
#define SLOW_EATER                                                                                 \
  "while :; do dd if=/dev/zero bs=1M count=2 2>/dev/null | sleep 600.221 & sleep 0.1; done"

LIMITED_TEST(the_guard_ends_a_step_before_the_kernel_does) {
  struct job *job = limited->job;
  job_start_agent(job, GUARDED, NULL);
  const cJSON *result = job_run(job, job_script(job, SLOW_EATER));
  expect_memory_limit(job, result);
  assert_int_equal(job_number(end_of(result), "oomKills"), 0);
  assert_int_equal(job_number(end_of(result), "survivors"), 0);
  const cJSON *largest = cJSON_GetObjectItem(end_of(result), "alive")->child;
  assert_string_equal(job_text(largest, "command"), "dd if=/dev/zero bs=1M count=2");
  assert_int_equal(proc_find("sleep 600.221"), 0);
  job_expect_to_go_on(job);
}

/* The pause lets the guard look before the kernel finds the memory exhausted. */
LIMITED_TEST(the_guard_ends_many_small_processes) {
  struct job *job = limited->job;
  job_start_agent(job, GUARDED, NULL);
  const cJSON *result =
      job_run(job, job_script(job, "while :; do head -c 500000 /dev/zero | sort | "
                                   "sleep 600.222 & sleep 0.01; done"));
  expect_memory_limit(job, result);
  assert_true(proc_wait_gone("sleep 600.222", WAIT_BOUND_MS));
  job_expect_to_go_on(job);
}

#define HOLDING "dd if=/dev/zero bs=20M count=2"

static bool holds_much(void *pid) {
  return proc_status_kib(*(pid_t *)pid, "VmRSS") > 16 * 1024;
}

static void wait_holding(void) {
  pid_t pid = proc_wait_for(HOLDING, WAIT_BOUND_MS);
  assert_true(pid > 0);
  assert_true(wait_until(holds_much, &pid, WAIT_BOUND_MS));
}

/* The background process is larger, so the running step continues. */
LIMITED_TEST(the_guard_ends_larger_background_processes_first) {
  struct job *job = limited->job;
  job_start_agent(job, GUARDED, NULL);
  (void)job_run(job, job_script(job, "(dd if=/dev/zero bs=20M count=2 | sleep 600.224) "
                                     ">/dev/null 2>&1 & echo up"));
  wait_holding();
  const cJSON *next =
      job_push_until(job,
                     job_script(job, "dd if=/dev/zero bs=14M count=2 2>&- | sleep 600.225 & "
                                     "echo up; wait"),
                     "up");
  agent_process_wait_log(job->agent, "the processes that an earlier step left were killed");
  assert_true(proc_wait_gone("sleep 600.224", WAIT_BOUND_MS));
  assert_true(proc_wait_for("sleep 600.225", WAIT_BOUND_MS) > 0);
  job_push_cancel(job, next);
  assert_string_equal(job_text(end_of(job_result_of(job, next)), "cause"), "cancelled");
}

LIMITED_TEST(the_guard_ignores_the_page_cache) {
  struct job *job = limited->job;
  job_start_agent(job, GUARDED, NULL);
  const cJSON *result = job_run(job, job_script(job, "f=$(mktemp); dd if=/dev/zero of=$f bs=1M "
                                                     "count=96 2>&-; cat $f >/dev/null; rm $f"));
  job_expect_result(job, result, 0, NULL, NULL);
}

/* The files stay after the kill, but do not count for the next step. */
LIMITED_TEST(the_guard_ends_a_step_that_fills_a_memory_file_system) {
  struct job *job = limited->job;
  const char *file = job_format(job, "/dev/shm/agent-test-%d", (int)getpid());
  job_start_agent(job, GUARDED, NULL);
  const cJSON *result = job_run(
      job, job_script(job, job_format(job,
                                      "while :; do dd if=/dev/zero bs=1M count=1 2>&- >>%s; "
                                      "sleep 0.1; done",
                                      file)));
  expect_memory_limit(job, result);
  assert_int_equal(job_number(end_of(result), "oomKills"), 0);
  agent_process_wait_log(job->agent, "exit=137");
  /* Freeing the killed step may have left a little more than the reserve. */
  const char *script = job_format(job,
                                  "dd if=/dev/zero bs=2M count=1 2>&- >>%s; echo up; "
                                  "sleep 600.231",
                                  file);
  const cJSON *next = job_push_until(job, job_script(job, script), "up");
  agent_process_wait_log(job->agent, "no step uses enough of it to be killed");
  assert_true(proc_wait_for("sleep 600.231", WAIT_BOUND_MS) > 0);
  job_push_cancel(job, next);
  assert_string_equal(job_text(end_of(job_result_of(job, next)), "cause"), "cancelled");
  assert_int_equal(unlink(file), 0);
}

/* --- a kernel that kills the whole group: fake files ------------------------------------------ */

static struct job *start_faked(struct faked_group *self) {
  return faked_group_start(self, "memory.oom.group=1\n", NULL);
}

#define EXHAUSTED "the container's memory was exhausted (94 of 100 MiB); "

static void use_memory(struct faked_group *self, int bytes) {
  faked_group_write(self, "memory.stat", "active_anon %d\n", bytes);
}

/* Holds 20 MiB, which the fake files do not count. */
#define HOLDER(SLEEP) "dd if=/dev/zero bs=20M count=2 2>/dev/null | " SLEEP
FAKED_TEST(the_guard_is_on_if_the_kernel_would_kill_the_whole_group) {
  struct job *job = start_faked(faked);
  const cJSON *step =
      job_push_until(job, job_script(job, "echo up; " HOLDER("sleep 600.226")), "up");
  agent_process_wait_log(job->agent, "the kernel would kill the agent together with a step");
  wait_holding();
  use_memory(faked, 99000000);
  const cJSON *result = job_result_of(job, step);
  job_expect_result(job, result, 137, EXHAUSTED "the step was killed", "up\n");
  assert_string_equal(job_text(end_of(result), "cause"), "memoryLimit");
  job_shut_down(job);
}

FAKED_TEST(the_guard_also_works_while_no_step_runs) {
  struct job *job = start_faked(faked);
  (void)job_run(job, job_script(job, "(" HOLDER("sleep 600.228") ") >/dev/null 2>&1 &"));
  wait_holding();
  use_memory(faked, 99000000);
  agent_process_wait_log(job->agent,
                         EXHAUSTED "the processes that an earlier step left were killed");
  assert_true(proc_wait_gone("sleep 600.228", WAIT_BOUND_MS));
  job_expect_to_go_on(job);
}

/* Otherwise the step would end after the grace period of the cancel. */
FAKED_TEST(the_guard_ends_a_step_that_ignores_its_cancel) {
  enum { GRACE_MS = 10000 };
  struct job *job = start_faked(faked);
  const cJSON *step =
      job_push_until(job, job_script(job, "trap '' TERM; echo up; " HOLDER("sleep 600.229")), "up");
  wait_holding();
  int64_t cancelled_ms = wait_now_ms();
  job_push_cancel(job, step);
  agent_process_wait_log(job->agent, "cancel: ending the running step");
  use_memory(faked, 99000000);
  assert_string_equal(job_text(end_of(job_result_of(job, step)), "cause"), "cancelled");
  assert_true(wait_now_ms() - cancelled_ms < GRACE_MS);
}

static void use_files(struct faked_group *self, int bytes, int files) {
  faked_group_write(self, "memory.stat", "active_anon %d\nshmem %d\n", bytes, files);
}

FAKED_TEST(the_guard_spares_a_step_that_may_not_own_the_files_in_memory) {
  struct job *job = start_faked(faked);
  (void)job_run(job, job_script(job, "sleep 600.232 >/dev/null 2>&1 &"));
  use_files(faked, 10000000, 10000000);
  const cJSON *step = job_push_endless(job, "sleep 600.233");
  use_files(faked, 99000000, 90000000);
  agent_process_wait_log(job->agent, EXHAUSTED "no step uses enough of it to be killed");
  assert_true(proc_wait_for("sleep 600.233", WAIT_BOUND_MS) > 0);
  job_push_cancel(job, step);
  assert_string_equal(job_text(end_of(job_result_of(job, step)), "cause"), "cancelled");
}

struct again {
  struct faked_group *faked;
  unsigned asked;
};

/* Alternates between enough and too little memory, each longer than one check of the guard. */
static bool use_memory_until_told(void *context) {
  struct again *self = context;
  use_memory(self->faked, self->asked++ / 128 % 2 == 0 ? 10000000 : 99000000);
  return agent_process_count_log(self->faked->job->agent, EXHAUSTED) > 1;
}

FAKED_TEST(the_guard_spares_a_step_that_uses_little_memory) {
  struct job *job = start_faked(faked);
  const cJSON *step = job_push_endless(job, "sleep 600.227");
  use_memory(faked, 99000000);
  agent_process_wait_log(job->agent, EXHAUSTED "no step uses enough of it to be killed");
  assert_true(wait_until(use_memory_until_told, &(struct again){.faked = faked}, WAIT_BOUND_MS));
  assert_true(proc_wait_for("sleep 600.227", WAIT_BOUND_MS) > 0);
  job_push_cancel(job, step);
  assert_string_equal(job_text(end_of(job_result_of(job, step)), "cause"), "cancelled");
}

JOB_TEST_NO_AGENT(the_log_says_if_the_reserve_has_no_effect) {
  job_start_agent(job, "--memory-reserve", "4000000000000000000", NULL);
  job_expect_to_go_on(job);
  job_expect_to_go_on(job);
  agent_process_wait_log(job->agent, "--memory-reserve has no effect: ");
  assert_int_equal(agent_process_count_log(job->agent, "--memory-reserve has no effect"), 1);
}
