/* Processes that escape a search by group, session, parent, environment or pid. Each end of the
   step, the job or the agent ends all of them. */

#include <sys/file.h>

#include "tests/support/command.h"
#include "tests/support/container.h"
#include "tests/support/gate.h"
#include "tests/support/job.h"
#include "tests/support/memory_group.h"

/* Some ignore SIGTERM and have a grace period of 10 s. The bound is less than the time after which
   they exit by themselves: escape_command.c. */
enum { ENDED_MS = 20000 };

/* $E is the command, and $F is its file. */
static const char *const ways[] = {
    "setsid $E rest $F",
    "(setsid $E rest $F &)",
    "env -i setsid $E rest $F",
    "env -i SANDBOX_STEP_TAG=another setsid $E rest $F",
    "$E thread $F",
    "$E sibling $F",
    "$E silent $F",
    "$E runaway $F",
    "$E bomb $F",
};
enum { WAYS = sizeof ways / sizeof *ways };

COMMAND_GROUP("escape")

static const char *file_of(struct job *job, int way) {
  return job_format(job, "%s.%d", command_path("file"), way);
}

/* A step that escapes in each way, and then executes `last`. */
static cJSON *escaping_step(struct job *job, const char *first, const char *last) {
  const char *script = job_format(job, "E=%s; %s", command_path("escape"), first);
  for (int i = 0; i < WAYS; i++) {
    const char *file = file_of(job, i);
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0 && fchmod(fd, 0666) == 0 && close(fd) == 0);
    script = job_format(job, "%s F=%s; %s &", script, file, ways[i]);
  }
  return job_script(job, job_format(job, "%s %s", script, last));
}

static bool have_escaped(void *context) {
  struct job *job = context;
  for (int i = 0; i < WAYS; i++) {
    struct stat file;
    if (stat(file_of(job, i), &file) != 0 || file.st_size == 0)
      return false;
  }
  return true;
}

static void wait_for_escapes(struct job *job) {
  if (!wait_until(have_escaped, job, WAIT_BOUND_MS))
    job_fail(job, "not all processes have escaped");
}

static bool is_free(void *file) {
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  bool free = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
  close(fd);
  return free;
}

static void expect_all_ended(struct job *job) {
  for (int i = 0; i < WAYS; i++) {
    const char *file = file_of(job, i);
    if (!wait_until(is_free, (void *)file, ENDED_MS))
      job_fail(job, "a process of `%s` still runs", ways[i]);
  }
}

static void expect_ended_by_deadline(struct job *job) {
  cJSON *step = escaping_step(job, "", "wait; sleep 600");
  cJSON_AddNumberToObject(step, "timeoutSeconds", 1);
  job_expect_result(job, job_run(job, step), -1, "timed out after 1s", NULL);
  expect_all_ended(job);
}

static void expect_ended_by_cancel(struct job *job) {
  const cJSON *step = escaping_step(job, "", "wait; sleep 600");
  job_push(job, step);
  wait_for_escapes(job);
  job_push_cancel(job, step);
  job_expect_part(job, job_result(job), "errorMessage", "cancelled");
  expect_all_ended(job);
}

static void escape_into_background(struct job *job) {
  const cJSON *step = escaping_step(job, "exec >/dev/null 2>&1;", "exit 0");
  job_expect_result(job, job_run(job, step), 0, NULL, NULL);
  wait_for_escapes(job);
}

static void expect_ended_by_shutdown(struct job *job) {
  escape_into_background(job);
  job_shut_down(job);
  expect_all_ended(job);
}

JOB_TEST(the_deadline_ends_all_escaped_processes) {
  expect_ended_by_deadline(job);
  job_expect_to_go_on(job);
}

JOB_TEST(a_cancel_ends_all_escaped_processes) {
  expect_ended_by_cancel(job);
  job_expect_to_go_on(job);
}

JOB_TEST(a_shutdown_ends_all_escaped_processes) {
  expect_ended_by_shutdown(job);
}

JOB_TEST(the_death_of_the_agent_ends_all_escaped_processes) {
  escape_into_background(job);
  pid_t pid = agent_process_pid(job->agent);
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(agent_process_wait(job->agent, WAIT_BOUND_MS), -SIGKILL);
  expect_all_ended(job);
}

/* The command kills its supervisor when all processes have escaped. */
JOB_TEST(the_death_of_the_supervisor_ends_all_escaped_processes) {
  const char *gate = job_format(job, "%s", command_path("gate"));
  const cJSON *step =
      escaping_step(job, "", job_format(job, GATE("%s") "kill -KILL $PPID; sleep 600", gate, gate));
  job_push(job, step);
  wait_for_escapes(job);
  gate_open(gate);
  job_expect_result(job, job_result(job), 137, "killed by signal 9 (SIGKILL)", NULL);
  expect_all_ended(job);
  job_expect_to_go_on(job);
}

/* The zombies of the chains could take all process numbers of the machine, and other tests would
   fail. So the agent runs in a group that has a limited number of them. */
static void start_limited(struct job *job, struct memory_group *group) {
  memory_group_init(group, (size_t)1024 * 1024 * 1024);
  job->setup.prepare = memory_group_enter;
  job->setup.prepare_context = group;
  job_start_agent(job, NULL);
}

#define CHAINS_TEST(NAME)                                                                          \
  static void NAME##_in(struct job *job);                                                          \
  JOB_TEST_NO_AGENT(NAME) {                                                                        \
    struct memory_group group;                                                                     \
    start_limited(job, &group);                                                                    \
    NAME##_in(job);                                                                                \
    job_shut_down(job);                                                                            \
    memory_group_release(&group);                                                                  \
  }                                                                                                \
  static void NAME##_in(struct job *job)

/* Pushes a step that starts 16 chains of processes that fork and exit. */
static const cJSON *push_chains(struct job *job, unsigned timeout_seconds, const char *suffix) {
  const char *file = job_write(job, "chains", "", 0666);
  const char *command = job_format(job, "%s chains %s%s", command_path("escape"), file, suffix);
  cJSON *step = job_script(job, command);
  cJSON_AddNumberToObject(step, "timeoutSeconds", timeout_seconds);
  job_push(job, step);
  return step;
}

static bool have_chains_begun(void *context) {
  struct stat file;
  return stat(context, &file) == 0 && file.st_size > 0;
}

static void expect_chains_ended(struct job *job) {
  if (!wait_until(is_free, job_path(job, "chains"), WAIT_BOUND_MS))
    job_fail(job, "a chain of processes still runs");
}

CHAINS_TEST(the_deadline_ends_chains_of_forking_processes) {
  const cJSON *step = push_chains(job, 1, "");
  const cJSON *result = job_result_within(job, WAIT_BOUND_MS);
  job_expect_result(job, result, -1, "timed out after 1s", NULL);
  assert_string_equal(job_text(result, "stepId"), job_text(step, "stepId"));
  expect_chains_ended(job);
  job_expect_to_go_on(job);
}

JOB_TEST_NO_AGENT(the_death_of_the_agent_ends_chains_of_forking_processes) {
  struct memory_group group;
  start_limited(job, &group);
  (void)push_chains(job, 60, "");
  assert_true(wait_until(have_chains_begun, job_path(job, "chains"), WAIT_BOUND_MS));
  assert_int_equal(kill(agent_process_pid(job->agent), SIGKILL), 0);
  expect_chains_ended(job);
  agent_process_free(job->agent);
  job->agent = NULL;
  memory_group_release(&group);
}

CHAINS_TEST(the_death_of_the_supervisor_ends_chains_of_forking_processes) {
  /* The shell starts no process, because the chains may leave none. */
  (void)push_chains(job, 60,
                    job_format(job,
                               " & until [ -s %s ]; do :; done; kill -KILL $PPID; "
                               "while :; do :; done",
                               job_path(job, "chains")));
  job_expect_part(job, job_result_within(job, WAIT_BOUND_MS), "errorMessage", "killed by signal 9");
  expect_chains_ended(job);
  job_expect_to_go_on(job);
}

static void expect_all_ends_in(struct job *job, const struct container *container) {
  job->setup.container = container;
  job_start_agent(job, NULL);
  expect_ended_by_deadline(job);
  expect_ended_by_shutdown(job);
}

JOB_TEST_NO_AGENT(process_1_of_a_restricted_container_ends_escaped_processes) {
  expect_all_ends_in(job, &(struct container){.restricted = true});
}

JOB_TEST_NO_AGENT(an_agent_below_an_init_ends_escaped_processes) {
  expect_all_ends_in(job, &(struct container){.restricted = true, .init = true});
}

TEST_OVERLAP(4)
