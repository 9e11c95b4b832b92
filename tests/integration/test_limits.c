/* The field `limits` of a step: what exceeds a limit is killed, and the result names the limit. */
#include "tests/support/faked_group.h"
#include "tests/support/gate.h"
#include "tests/support/job.h"
#include "tests/support/kind_rows.h"
#include "tests/support/mcp_client.h"
#include "tests/support/memory_group.h"

static cJSON *limit(cJSON *step, const char *limits) {
  cJSON *object = cJSON_Parse(quoted(limits));
  assert_non_null(object);
  assert_true(cJSON_AddItemToObject(step, "limits", object));
  return step;
}

static const cJSON *limited(struct job *job, const char *script, const char *limits) {
  return limit(job_script(job, script), limits);
}

static const cJSON *end_of(const cJSON *result) {
  return cJSON_GetObjectItem(result, "end");
}

static void expect_cause(struct job *job, const cJSON *result, int exit_code, const char *cause) {
  if (cJSON_GetObjectItem(result, "exitCode")->valueint != exit_code ||
      strcmp(job_text(end_of(result), "cause"), cause) != 0)
    job_fail(job, "not %s: %s", cause, job_text(result, "errorMessage"));
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(result, "timedOut")));
}

/* --- figures of the container that the test writes -------------------------------------------- */

#define TASKS(COUNT) "pids.current=" COUNT "\n"

static void set_tasks(const struct faked_group *self, int count) {
  faked_group_write(self, "pids.current", "%08d\n", count);
}

FAKED_TEST(a_step_that_has_too_many_processes_is_killed) {
  struct job *job = faked_group_start(faked, TASKS("00000010"), NULL);
  const cJSON *step =
      job_push_until(job, limited(job, "echo up; exec sleep 600.301", "{'processes':5}"), "up");
  set_tasks(faked, 15);
  set_tasks(faked, 16);
  const cJSON *result = job_result_of(job, step);
  expect_cause(job, result, 137, "processLimit");
  assert_string_equal(job_text(result, "errorMessage"),
                      "the step had 6 of its 5 processes (limits.processes); it was killed");
  assert_string_equal(job_text(end_of(result), "cause"), "processLimit");
  assert_string_equal(job_text(cJSON_GetObjectItem(end_of(result), "alive")->child, "command"),
                      "sleep 600.301");
  assert_int_equal(proc_find("sleep 600.301"), 0);
  set_tasks(faked, 10);
  job_expect_to_go_on(job);
}

FAKED_TEST(a_step_that_uses_too_much_memory_is_killed) {
  struct job *job = faked_group_start(faked, NULL);
  const cJSON *step = job_push_until(
      job, limited(job, "echo up; exec sleep 600.302", "{'memoryBytes':52428800}"), "up");
  faked_group_write(faked, "memory.stat", "active_anon %d\n", 70000000);
  const cJSON *result = job_result_of(job, step);
  job_expect_result(job, result, 137,
                    "the step used 58 of its 50 MiB (limits.memoryBytes); it was killed", "up\n");
  expect_cause(job, result, 137, "memoryLimit");
  job_expect_to_go_on(job);
}

/* What the earlier steps have used counts for none of the next ones. */
FAKED_TEST(a_step_begins_with_what_the_container_uses) {
  struct job *job = faked_group_start(faked, TASKS("00000010"), NULL);
  job_expect_to_go_on(job);
  for (int tasks = 20; tasks <= 60; tasks += 20) {
    set_tasks(faked, tasks);
    const cJSON *step =
        job_push_until(job, limited(job, "echo up; exec sleep 600.303", "{'processes':5}"), "up");
    set_tasks(faked, tasks + 7);
    job_expect_part(job, job_result_of(job, step), "errorMessage", "had 7 of its 5 processes");
  }
}

#define MANY_SLEEPS(SLEEP) "i=0; while [ $i -lt 20 ]; do sleep " SLEEP " & i=$((i + 1)); done; wait"

/* The growth may be that of the background process. Then the step's own processes count. */
FAKED_TEST(beside_background_processes_the_own_processes_of_a_step_count) {
  struct job *job = faked_group_start(faked, TASKS("00000010"), NULL);
  (void)job_run(job, job_script(job, "sleep 600.304 >/dev/null 2>&1 &"));
  const cJSON *step = job_push_until(
      job, limited(job, "echo up; cat >/dev/null; " MANY_SLEEPS("600.305"), "{'processes':15}"),
      "up");
  set_tasks(faked, 99);
  const cJSON *result = job_result_of(job, step);
  expect_cause(job, result, 137, "processLimit");
  job_expect_part(job, result, "errorMessage", " of its 15 processes (limits.processes)");
  assert_null(strstr(job_text(result, "errorMessage"), "had 89 "));
  assert_true(proc_wait_for("sleep 600.304", WAIT_BOUND_MS) > 0);
}

/* Here the figures of the container do not exist. */
FAKED_TEST(without_the_counter_the_own_processes_of_a_step_count) {
  struct job *job = faked_group_start(faked, NULL);
  const cJSON *result = job_run(job, limited(job, MANY_SLEEPS("600.306"), "{'processes':15}"));
  expect_cause(job, result, 137, "processLimit");
  job_expect_part(job, result, "errorMessage", " of its 15 processes (limits.processes)");
  assert_int_equal(job_number(end_of(result), "survivors"), 0);
  job_expect_to_go_on(job);
}

#define EATER "head -c 100000000 /dev/zero | tail -c 90000000 >/dev/null"

FAKED_TEST(beside_background_processes_the_resident_memory_counts) {
  struct job *job = faked_group_start(faked, NULL);
  (void)job_run(job, job_script(job, "sleep 600.307 >/dev/null 2>&1 &"));
  const cJSON *result =
      job_run(job, limited(job, EATER "; sleep 600.308", "{'memoryBytes':52428800}"));
  expect_cause(job, result, 137, "memoryLimit");
  job_expect_part(job, result, "errorMessage", " of its 50 MiB (limits.memoryBytes)");
}

/* --- a real control group --------------------------------------------------------------------- */

struct grouped {
  struct job *job;
  struct memory_group group;
};

static int set_up_grouped(void **state) {
  struct grouped *self = calloc(1, sizeof *self);
  assert_non_null(self);
  void *job;
  (void)job_setup_server(&job);
  self->job = job;
  memory_group_init(&self->group, 256 * 1024 * 1024);
  self->job->setup.prepare = memory_group_enter;
  self->job->setup.prepare_context = &self->group;
  job_start_agent(self->job, NULL);
  *state = self;
  return 0;
}

static int tear_down_grouped(void **state) {
  struct grouped *self = *state;
  void *job = self->job;
  (void)job_teardown(&job);
  memory_group_release(&self->group);
  free(self);
  return 0;
}

#define GROUP_TEST(NAME)                                                                           \
  static void NAME##_in(struct job *job);                                                          \
  TEST_WITH(struct grouped *grouped, NAME, set_up_grouped, tear_down_grouped) {                    \
    NAME##_in(grouped->job);                                                                       \
  }                                                                                                \
  static void NAME##_in(struct job *job)

GROUP_TEST(a_step_that_allocates_too_much_is_killed) {
  const cJSON *result =
      job_run(job, limited(job, EATER "; sleep 600.309", "{'memoryBytes':52428800}"));
  expect_cause(job, result, 137, "memoryLimit");
  job_expect_part(job, result, "errorMessage", " of its 50 MiB (limits.memoryBytes)");
  assert_int_equal(job_number(end_of(result), "oomKills"), 0);
  assert_int_equal(job_number(end_of(result), "survivors"), 0);
  agent_process_wait_log(job->agent, "(limits.memoryBytes); it was killed");
  job_expect_to_go_on(job);
}

GROUP_TEST(files_in_memory_count) {
  const char *file = job_format(job, "/dev/shm/limits-test-%d", (int)getpid());
  const char *script =
      job_format(job, "trap 'rm %s' EXIT; head -c 90000000 /dev/zero >%s", file, file);
  const cJSON *result = job_run(
      job, limited(job, job_format(job, "%s; sleep 600.310", script), "{'memoryBytes':52428800}"));
  assert_int_equal(unlink(file), 0);
  expect_cause(job, result, 137, "memoryLimit");
}

GROUP_TEST(the_page_cache_does_not_count) {
  const cJSON *result =
      job_run(job, limited(job,
                           "f=$(mktemp); dd if=/dev/zero of=$f bs=1M count=150 2>&-; "
                           "cat $f >/dev/null; rm $f",
                           "{'memoryBytes':52428800}"));
  job_expect_result(job, result, 0, NULL, NULL);
}

#define FORK_BOMB "f() { f | f & }; f; sleep 600.311"

GROUP_TEST(a_fork_bomb_is_killed) {
  for (int i = 0; i < 3; i++) {
    const cJSON *result = job_run(job, limited(job, FORK_BOMB, "{'processes':50}"));
    expect_cause(job, result, 137, "processLimit");
    job_expect_part(job, result, "errorMessage", " of its 50 processes (limits.processes)");
    assert_int_equal(job_number(end_of(result), "survivors"), 0);
    job_expect_to_go_on(job);
  }
}

GROUP_TEST(a_step_within_its_limits_is_not_killed) {
  const cJSON *step =
      limited(job, MANY_SLEEPS("0.1") "; head -c 10M /dev/zero | tail -c 9M | wc -c",
              "{'memoryBytes':52428800,'processes':30}");
  job_expect_result(job, job_run(job, step), 0, NULL, "9437184\n");
}

GROUP_TEST(one_process_is_within_a_limit_of_one) {
  for (int i = 0; i < 20; i++)
    job_expect_result(job, job_run(job, limited(job, "exec sleep 0.05", "{'processes':1}")), 0,
                      NULL, NULL);
}

/* --- limits that the kernel enforces ---------------------------------------------------------- */

#define SPINS "; while :; do :; done"

/* The shell sets the soft limit, which the agent sets, too. */
JOB_TEST(the_signal_of_the_processor_time_is_explained) {
  const cJSON *result =
      job_run(job, limited(job, "echo hi; ulimit -S -t 1" SPINS, "{'cpuSeconds':1}"));
  job_expect_result(job, result, 152,
                    "killed by signal 24 (SIGXCPU): a process used 1 s of processor time "
                    "(limits.cpuSeconds)\nhi",
                    "hi\n");
  expect_cause(job, result, 152, "cpuLimit");
  assert_int_equal(job_number(end_of(result), "signal"), SIGXCPU);
  assert_string_equal(job_text(end_of(result), "signalName"), "SIGXCPU");
  agent_process_wait_log(job->agent, "`: limits.cpuSeconds");
}

JOB_TEST(a_command_that_ignores_the_signal_is_killed_for_its_processor_time) {
  const cJSON *result =
      job_run(job, limited(job, "trap '' XCPU; ulimit -t 2" SPINS, "{'cpuSeconds':1}"));
  job_expect_result(job, result, 137,
                    "killed by signal 9 (SIGKILL): a process used 1 s of processor time "
                    "(limits.cpuSeconds)",
                    NULL);
  expect_cause(job, result, 137, "cpuLimit");
}

/* Its pattern is tried in ways whose number doubles with each character. */
JOB_TEST(a_search_is_ended_for_its_processor_time) {
  (void)job_run(
      job, job_script(
               job, job_format(
                        job, "cd %s; for i in $(seq 50000); do echo aaaaaaaaaaaaaaaaab; done >text",
                        kind_rows_directory(job))));
  cJSON *step = kind_rows_step(job, "'kind':'grep','path':'text','pattern':'^(a+)+[cd]'");
  const cJSON *result = job_run(job, limit(step, "{'cpuSeconds':1}"));
  job_expect_result(job, result, 152,
                    "killed by signal 24 (SIGXCPU): a process used 1 s of processor time "
                    "(limits.cpuSeconds)",
                    NULL);
  expect_cause(job, result, 152, "cpuLimit");
}

JOB_TEST(a_kill_by_another_process_is_no_limit) {
  const cJSON *result = job_run(job, limited(job, "kill -KILL $$", "{'cpuSeconds':60}"));
  job_expect_result(job, result, 137, "killed by signal 9 (SIGKILL)", NULL);
  expect_cause(job, result, 137, "signal");
}

JOB_TEST(without_the_field_the_signal_is_the_cause) {
  const cJSON *result = job_run(job, limited(job, "ulimit -S -t 1" SPINS, "{'openFiles':64}"));
  job_expect_result(job, result, 152, "killed by signal 24 (SIGXCPU)", NULL);
  expect_cause(job, result, 152, "signal");
}

JOB_TEST(the_signal_of_the_file_size_is_explained) {
  const cJSON *result = job_run(
      job,
      limited(job, "f=$(mktemp); exec 3>$f; rm $f; ulimit -S -f 8; exec head -c 4097 /dev/zero >&3",
              "{'fileSizeBytes':4096}"));
  job_expect_result(
      job, result, 153,
      "killed by signal 25 (SIGXFSZ): a file would have become larger than 4096 bytes "
      "(limits.fileSizeBytes)",
      NULL);
  expect_cause(job, result, 153, "fileSizeLimit");
  job_expect_to_go_on(job);
}

/* --- the agent's own limits ------------------------------------------------------------------- */

JOB_TEST_NO_AGENT(a_step_cannot_exceed_the_limits_of_its_agent) {
  static const char *const limits[] = {"{'processes':500}", "{}", "null"};
  job_start_agent(job, "--limits", quoted("{'processes':15,'cpuSeconds':600}"), NULL);
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    const cJSON *result = job_run(job, limited(job, MANY_SLEEPS("600.312"), limits[i]));
    expect_cause(job, result, 137, "processLimit");
    job_expect_part(job, result, "errorMessage", " of its 15 processes (limits.processes)");
  }
  const cJSON *result = job_run(job, limited(job, MANY_SLEEPS("600.313"), "{'processes':10}"));
  job_expect_part(job, result, "errorMessage", " of its 10 processes (limits.processes)");
}

/* Which of the calls uses the memory is known by their processes only. They begin together. */
MCP_TEST(of_two_calls_the_one_that_uses_too_much_is_killed) {
  mcp_client_start(client, "--mcp", quoted("--limits={'memoryBytes':52428800}"));
  mcp_client_call(client, 1, GATE("go") "echo survived", false);
  mcp_client_call(client, 2, EATER "; sleep 600.314", false);
  const char *line = mcp_client_expect_part(client, " of its 50 MiB (limits.memoryBytes)");
  assert_non_null(strstr(line, quoted("'id':2,")));
  mcp_client_open_gate(client, "go");
  mcp_client_expect_called(client, 1, "survived", false);
}

TEST_WITH(struct stdio_trial *trial, an_answer_of_stdio_names_the_limit_that_ended_the_command,
          stdio_trial_set_up, stdio_trial_tear_down) {
  const char *const arguments[] = {"--stdio", "--limits", quoted("{'fileSizeBytes':10}"), NULL};
  struct stdio_host *host = stdio_host_start(
      &(struct stdio_host_setup){.arguments = arguments, .directory = trial->directory.path});
  trial->host = host;
  stdio_host_send(host, "{'id':1,'method':'execute','params':{'command':"
                        "'exec head -c 20 /dev/zero >file'}}\n");
  stdio_host_expect(host, "{'id':1,'result':{'exitCode':153,'stdout':'','stderr':'',"
                          "'timedOut':false,'durationSeconds':S,'errorMessage':'killed by signal "
                          "25 (SIGXFSZ): a file would have become larger than 10 bytes "
                          "(limits.fileSizeBytes)'}}");
  stdio_host_close_input(host);
  stdio_host_expect_exit(host, 0);
}
