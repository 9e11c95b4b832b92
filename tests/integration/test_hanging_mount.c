/* Steps that use a mount that does not answer: the step fails, and the agent continues. */

#include <sys/file.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "tests/support/hanging_mount.h"
#include "tests/support/injection.h"
#include "tests/support/job.h"
#include "tests/support/kind_rows.h"

/* The deadline, the grace period and the search for survivors, with a margin. A server waits 30 s
   longer than the deadline. */
#define HANG_BOUND_MS 31000

/* How long an orchestrator waits for the exit. */
#define LEAVE_BOUND_MS 10000

struct scene {
  struct job *job;
  struct hanging_mount mount;
  char *inside; /* a path inside the mount */
};

static void begin(struct scene *self, struct job *job) {
  self->job = job;
  const char *path = kind_rows_path(self->job, "mount");
  assert_int_equal(mkdir(path, 0777), 0);
  hanging_mount_init(&self->mount, path);
  self->inside = job_format(self->job, "%s/below", path);
  job_start_agent(self->job, NULL);
}

static cJSON *step_in(struct scene *self, const char *directory, const char *command) {
  cJSON *step = job_step(self->job, command, NULL);
  cJSON_AddStringToObject(step, "workingDirectory", directory);
  return step;
}

/* A mount that a failed test leaves would block the cleanup. */
static int tear_down(void **state) {
  (void)umount2(kind_rows_path(*state, "mount"), MNT_DETACH);
  return job_teardown(state);
}

TEST_WITH(struct job *job, a_working_directory_that_hangs_ends_at_the_deadline, job_setup_server,
          tear_down) {
  struct scene scene;
  begin(&scene, job);
  cJSON *step = step_in(&scene, scene.inside, "true");
  cJSON_AddNumberToObject(step, "timeoutSeconds", 1);
  const cJSON *result = job_run_within(job, step, HANG_BOUND_MS);
  job_expect_result(job, result, -1, "timed out after 1s", NULL);
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(result, "timedOut")));
  job_expect_to_go_on(job);
  hanging_mount_release(&scene.mount);
  job_expect_result(job, job_run(job, job_step(job, "echo", "still", NULL)), 0, NULL, "still\n");
  job_shut_down(job);
}

TEST_WITH(struct job *job, a_program_that_hangs_can_be_cancelled, job_setup_server, tear_down) {
  struct scene scene;
  begin(&scene, job);
  cJSON *step = step_in(&scene, "/", scene.inside);
  job_push(job, step);
  job_wait_event(job, step, "started", scene.inside);
  job_push_cancel(job, step);
  const cJSON *result = job_result_within(job, HANG_BOUND_MS);
  job_expect_result(job, result, -1, "cancelled: by a cancel step", NULL);
  job_expect_to_go_on(job);
  hanging_mount_release(&scene.mount);
  job_shut_down(job);
}

static void expect_heartbeat(struct job *job) {
  assert_true(job_ask_number(job, "PTTL sandbox:%s:heartbeat", job->id) > 0);
}

/* First the path of the file is on the mount, then the working directory. */
TEST_WITH(struct job *job, a_file_step_that_hangs_ends_alone, job_setup_server, tear_down) {
  struct scene scene;
  begin(&scene, job);
  cJSON *step = kind_rows_step(job, "'kind':'readFile','path':'mount/x','timeoutSeconds':1");
  job_expect_result(job, job_run_within(job, step, HANG_BOUND_MS), -1, "timed out after 1s", NULL);
  expect_heartbeat(job);
  step = kind_rows_step(job, "'kind':'grep','path':'.','pattern':'x'");
  cJSON_ReplaceItemInObject(step, "workingDirectory", cJSON_CreateString(scene.inside));
  job_push(job, step);
  job_wait_event(job, step, "started", "grep .");
  job_push_cancel(job, step);
  job_expect_result(job, job_result_within(job, HANG_BOUND_MS), -1, "cancelled: by a cancel step",
                    NULL);
  expect_heartbeat(job);
  hanging_mount_release(&scene.mount);
  job_expect_to_go_on(job);
  job_shut_down(job);
}

struct leaving {
  struct agent_process *agent;
  int64_t seen_ms; /* when it was last seen running */
};

static bool watch_agent(void *context) {
  struct leaving *self = context;
  int64_t now_ms = wait_now_ms();
  bool runs = agent_process_is_running(self->agent);
  self->seen_ms = runs ? now_ms : self->seen_ms;
  return !runs;
}

TEST_WITH(struct job *job, a_signal_is_obeyed_while_a_step_hangs, job_setup_server, tear_down) {
  struct scene scene;
  begin(&scene, job);
  cJSON *step = step_in(&scene, scene.inside, "true");
  job_push(job, step);
  job_wait_event(job, step, "started", "true");
  struct leaving leaving = {job->agent, wait_now_ms()};
  int64_t ordered_ms = leaving.seen_ms;
  assert_int_equal(kill(agent_process_pid(job->agent), SIGTERM), 0);
  (void)wait_until(watch_agent, &leaving, WAIT_BOUND_MS);
  job_expect_exit(job, 128 + SIGTERM);
  assert_true(leaving.seen_ms - ordered_ms < LEAVE_BOUND_MS);
  hanging_mount_release(&scene.mount);
}

struct hanging_supervisor {
  pid_t agent, pid;
};

/* Finds the supervisor whose child hangs. */
static bool find_hanging_child(void *context) {
  struct hanging_supervisor *self = context;
  for (int i = 0; (self->pid = proc_child_of(self->agent, i)) != 0; i++)
    if (proc_sleeps_in(proc_child_of(self->pid, 0), SYS_chdir))
      return true;
  return false;
}

static bool is_asleep(void *context) {
  const struct hanging_supervisor *self = context;
  return proc_sleeps_in(self->pid, SYS_ppoll);
}

/* The child of the supervisor waits in the kernel and cannot be killed. */
TEST_WITH(struct job *job, an_orphaned_supervisor_sleeps_while_its_step_hangs, job_setup_server,
          tear_down) {
  struct scene scene;
  begin(&scene, job);
  job_push(job, step_in(&scene, scene.inside, "true"));
  struct hanging_supervisor supervisor = {.agent = agent_process_pid(job->agent)};
  assert_true(wait_until(find_hanging_child, &supervisor, WAIT_BOUND_MS));
  assert_int_equal(kill(supervisor.agent, SIGKILL), 0);
  assert_int_equal(agent_process_wait(job->agent, WAIT_BOUND_MS), -SIGKILL);
  assert_true(wait_until(is_asleep, &supervisor, WAIT_BOUND_MS));
  hanging_mount_release(&scene.mount);
  assert_true(proc_wait_pid_gone(supervisor.pid, WAIT_BOUND_MS));
}

/* The default directory is /work, if it exists. The agent itself does not look at it. */
TEST_WITH(struct job *job, the_default_directory_may_hang, job_setup_server, tear_down) {
  static const char work[] = "/work";
  job_start_agent(job, NULL);
  job_expect_result(job, job_run(job, job_step(job, "echo", "before", NULL)), 0, NULL, "before\n");
  /* If /work does not exist, the test makes it for the whole machine; one program at a time. */
  int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_int_equal(flock(root, LOCK_EX), 0);
  bool made = mkdir(work, 0755) == 0;
  struct hanging_mount mount;
  hanging_mount_init(&mount, work);
  cJSON *step = job_step(job, "true", NULL);
  job_push(job, step);
  job_wait_event(job, step, "started", "true");
  job_push_cancel(job, step);
  job_expect_result(job, job_result_within(job, HANG_BOUND_MS), -1, "cancelled: by a cancel step",
                    NULL);
  hanging_mount_release(&mount);
  if (made)
    assert_int_equal(rmdir(work), 0);
  close(root);
  job_shut_down(job);
}

static int begin_group(void **state) {
  /* The memory that a hanging child still uses is kept on purpose. */
  return setenv("ASAN_OPTIONS", "detect_leaks=0", 1) == 0 ? injection_begin_group(state) : -1;
}

TEST_GROUP(begin_group, NULL)

TEST_OVERLAP(4)
