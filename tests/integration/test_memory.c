/* Steps that take all memory of their container, whose limit is the kernel's. */
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/job.h"
#include "tests/support/memory_group.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define MIB (1024.0 * 1024)

static const cJSON *end_of(const cJSON *result) {
  return cJSON_GetObjectItem(result, "end");
}

static double figure(const cJSON *end, const char *name) {
  const cJSON *field = cJSON_GetObjectItem(end, name);
  if (!cJSON_IsNumber(field))
    fail_msg("%s is no number", name);
  return field->valuedouble;
}

static const char *cause(const cJSON *end) {
  return cJSON_GetObjectItem(end, "cause")->valuestring;
}

/* --- what the kernel ends -------------------------------------------------------------------- */

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

LIMITED_TEST(a_step_that_eats_all_memory_is_told_so) {
  job_start_agent(limited->job, NULL);
  const cJSON *result = job_run(limited->job, job_script(limited->job, "exec " EATER));
  job_expect_result(limited->job, result, 137,
                    "killed by signal 9 (SIGKILL): out of memory, the container has 48 MiB", NULL);
  const cJSON *end = end_of(result);
  assert_string_equal(cause(end), "signal");
  assert_int_equal(figure(end, "oomKills"), 1);
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(end, "oomKilled")));
  const cJSON *memory = cJSON_GetObjectItem(end, "memory");
  assert_int_equal(figure(memory, "limitBytes"), 48 * MIB);
  assert_true(figure(memory, "peakBytes") > 40 * MIB);
  job_expect_to_go_on(limited->job);
}

LIMITED_TEST(so_is_one_whose_child_does) {
  job_start_agent(limited->job, NULL);
  const cJSON *result =
      job_run(limited->job, job_script(limited->job, "echo begin; " EATER " 2>&-; exit 1"));
  job_expect_result(limited->job, result, 1,
                    "exited with code 1: out of memory, the container has 48 MiB\nbegin",
                    "begin\n");
  assert_string_equal(cause(end_of(result)), "exited");
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(end_of(result), "oomKilled")));
}

LIMITED_TEST(one_that_succeeds_has_the_number_alone) {
  job_start_agent(limited->job, NULL);
  const cJSON *result = job_run(limited->job, job_script(limited->job, EATER " 2>&-; exit 0"));
  job_expect_result(limited->job, result, 0, NULL, NULL);
  assert_int_equal(figure(end_of(result), "oomKills"), 1);
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(end_of(result), "oomKilled")));
  result = job_run(limited->job, job_script(limited->job, "exit 7"));
  assert_int_equal(figure(end_of(result), "oomKills"), 0);
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(end_of(result), "oomKilled")));
}

/* --- what the guard ends before ---------------------------------------------------------------- */

#define GUARDED "--memory-reserve", "16777216"

static void expect_memory_limit(struct job *job, const cJSON *result) {
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 137);
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(result, "timedOut")));
  job_expect_part(job, result, "errorMessage", "the container's memory was exhausted (");
  job_expect_part(job, result, "errorMessage", " of 48 MiB); the step was killed");
  assert_string_equal(cause(end_of(result)), "memoryLimit");
  assert_int_equal(figure(end_of(result), "survivors"), 0);
}

/* It takes its time, so that a busy machine is fast enough. */
#define SLOW_EATER                                                                                 \
  "while :; do dd if=/dev/zero bs=1M count=2 2>/dev/null | sleep 600.221 & sleep 0.02; done"

LIMITED_TEST(with_a_reserve_the_kernel_need_not_end_anybody) {
  struct job *job = limited->job;
  job_start_agent(job, GUARDED, NULL);
  const cJSON *result = job_run(job, job_script(job, SLOW_EATER));
  expect_memory_limit(job, result);
  assert_int_equal(figure(end_of(result), "oomKills"), 0);
  const cJSON *largest = cJSON_GetObjectItem(end_of(result), "alive")->child;
  assert_string_equal(job_text(largest, "command"), "dd if=/dev/zero bs=1M count=2");
  assert_int_equal(proc_find("sleep 600.221"), 0);
  job_expect_to_go_on(job);
}

LIMITED_TEST(a_swarm_of_small_ones_is_ended_too) {
  struct job *job = limited->job;
  job_start_agent(job, GUARDED, NULL);
  expect_memory_limit(job,
                      job_run(job, job_script(job, "while :; do head -c 500000 /dev/zero | sort | "
                                                   "sleep 600.222 & done")));
  assert_int_equal(proc_find("sleep 600.222"), 0);
  job_expect_to_go_on(job);
}

/* It takes less than the reserve leaves, and the next one little more: the innocent one goes on. */
LIMITED_TEST(what_an_earlier_step_has_left_is_ended_when_it_is_larger) {
  struct job *job = limited->job;
  job_start_agent(job, GUARDED, NULL);
  (void)job_run(job, job_script(job, "(dd if=/dev/zero bs=20M count=2 | sleep 600.224) "
                                     ">/dev/null 2>&1 & echo up"));
  const cJSON *next =
      job_push_until(job,
                     job_script(job, "dd if=/dev/zero bs=14M count=2 2>&- | sleep 600.225 & "
                                     "echo up; wait"),
                     "up");
  agent_process_wait_log(job->agent, "what an earlier step has left was killed");
  assert_true(proc_wait_gone("sleep 600.224", WAIT_BOUND_MS));
  assert_true(proc_find("sleep 600.225") > 0);
  job_push_cancel(job, next);
  assert_string_equal(cause(end_of(job_result_of(job, next))), "cancelled");
}

LIMITED_TEST(the_page_cache_is_no_want_of_memory) {
  struct job *job = limited->job;
  job_start_agent(job, GUARDED, NULL);
  const cJSON *result = job_run(job, job_script(job, "f=$(mktemp); dd if=/dev/zero of=$f bs=1M "
                                                     "count=96 2>&-; cat $f >/dev/null; rm $f"));
  job_expect_result(job, result, 0, NULL, NULL);
}

/* --- a kernel that ends the whole group: its files, below a real group ------------------------------ */

#define FAKE "/sys/fs/cgroup/unified/test-fake"

static void write_fake(const char *root, const char *name, const char *text) {
  char path[PATH_MAX];
  (void)snprintf(path, sizeof path, "%s" FAKE "/%s", root, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
    _exit(AGENT_PROCESS_NO_START);
  close(fd);
}

/* The agent is in the group, and sees other files in it. */
static void enter_fake(const void *context) {
  (void)context;
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    _exit(AGENT_PROCESS_NO_START);
  write_fake("", "cgroup.procs", "0");
  if (mount("none", FAKE, "tmpfs", 0, NULL) != 0)
    _exit(AGENT_PROCESS_NO_START);
  write_fake("", "memory.max", "104857600\n");
  write_fake("", "memory.oom.group", "1\n");
  write_fake("", "memory.events", "oom_kill 0\n");
  write_fake("", "memory.stat", "active_anon 10000000\n");
}

static bool is_removed(void *path) {
  return rmdir(path) == 0;
}

JOB_TEST_NO_AGENT(where_the_kernel_ends_all_the_guard_is_on) {
  char path[] = FAKE, root[64];
  assert_int_equal(mkdir(path, 0755), 0);
  job->setup.prepare = enter_fake;
  job_start_agent(job, NULL);
  const cJSON *step = job_push_until(job, job_script(job, "echo up; exec sleep 600.226"), "up");
  agent_process_wait_log(job->agent, "an out-of-memory kill would end the agent, too");
  (void)snprintf(root, sizeof root, "/proc/%d/root", (int)agent_process_pid(job->agent));
  write_fake(root, "memory.stat", "active_anon 99000000\n");
  const cJSON *result = job_result_of(job, step);
  job_expect_result(job, result, 137,
                    "the container's memory was exhausted (94 of 100 MiB); the step was killed",
                    "up\n");
  assert_string_equal(cause(end_of(result)), "memoryLimit");
  job_shut_down(job);
  assert_true(wait_until(is_removed, path, WAIT_BOUND_MS));
}
