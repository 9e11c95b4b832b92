/* The agent in a pid namespace, as in a container: as process 1, and below an init. */

#include <sched.h>
#include <sys/mount.h>

#include "tests/support/command.h"
#include "tests/support/container.h"
#include "tests/support/injection.h"
#include "tests/support/job.h"
#include "tests/support/memory_group.h"

/* The attacks of attack_command.c that a step may do to itself. */
#define ATTACKS "prlimit scheduler parameter attributes affinity nice nice-group io io-group "

COMMAND_GROUP("attack")

/* The 32-bit system calls, if the processor and the kernel have them. */
static const char *foreign_attacks(void) {
  bool has_them = system(formatted("%s foreign 0 >/dev/null 2>&1", command_path("attack"))) == 0;
  return has_them ? "foreign-prlimit foreign-nice" : "prlimit prlimit";
}

static void start_in(struct job *job, const struct container *container) {
  job->setup.container = container;
  job_start_agent(job, NULL);
}

/* The process IDs in such a /proc belong to another namespace, so the agent cannot use it. (The
   leak sanitizer reads its own /proc and fails.) */
TEST_WITH_IF(agent_process_is_shipped(), struct job *job,
             the_agent_ignores_a_proc_of_another_pid_namespace, job_setup_server, job_teardown) {
  static const struct container rows[] = {{.outer_proc = true}, {.init = true, .outer_proc = true}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    start_in(job, &rows[i]);
    const char *sleep = job_sleep(job, 600);
    cJSON *step = job_script(job, job_format(job, "%s & %s", sleep, sleep));
    cJSON_AddNumberToObject(step, "timeoutSeconds", 1);
    const cJSON *result = job_run(job, step);
    job_expect_result(job, result, -1, "timed out after 1s", NULL);
    assert_true(proc_wait_gone(sleep, WAIT_BOUND_MS));
    agent_process_wait_log(job->agent, "/proc");
    job_shut_down(job);
  }
}

JOB_TEST_NO_AGENT(the_agent_reads_its_own_proc) {
  static const struct container rows[] = {{0}, {.init = true}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    start_in(job, &rows[i]);
    const char *sleep = job_sleep(job, 600);
    const char *output = i == 0 ? "1" : "2";
    const cJSON *step = job_script(
        job, job_format(job, "setsid %s & cut -d' ' -f4 /proc/$PPID/stat; sleep 600", sleep));
    job_push_until(job, step, output);
    assert_true(proc_wait_for(sleep, WAIT_BOUND_MS) > 0);
    job_push_cancel(job, step);
    job_expect_answer(job, step, -1, "cancelled: by a cancel step",
                      job_format(job, "%s\n", output));
    assert_true(proc_wait_gone(sleep, WAIT_BOUND_MS));
    job_shut_down(job);
  }
}

static const struct container restricted[] = {{.restricted = true},
                                              {.restricted = true, .init = true}};

/* The agent's pid inside of the namespace in each case; the function returns the pid outside. */
static const char *const agent_inside[] = {"1", "2"};

static pid_t agent_outside(const struct job *job, const struct container *container) {
  pid_t first = agent_process_pid(job->agent);
  return container->init ? container_child(first) : first;
}

/* The agent ignores signals of all processes of the step, and obeys signals from outside and from
   init. */
JOB_TEST_NO_AGENT(a_step_cannot_stop_the_agent_with_signals) {
  static const char *const scripts[] = {
      "for i in TERM INT QUIT HUP USR1; do kill -$i $A $PPID; done",
      "for i in TERM INT QUIT HUP; do /bin/kill -$i $A $PPID; sleep 0.1; done",
      "(setsid sh -c \"kill -TERM $A $PPID; sleep 0.1\" &); sleep 0.2",
      "$T queue $A; sleep 0.1",
      "$T sigio $A; sleep 0.1",
      "$T unsigned $A; sleep 0.1",
  };
  for (size_t i = 0; i < sizeof restricted / sizeof *restricted; i++) {
    start_in(job, &restricted[i]);
    for (size_t n = 0; n < sizeof scripts / sizeof *scripts; n++) {
      const char *script = job_format(job, "A=%s T=%s; %s; echo on", agent_inside[i],
                                      command_path("attack"), scripts[n]);
      job_expect_part(job, job_run(job, job_script(job, script)), "outputContent", "on\n");
    }
    agent_process_wait_log(job->agent, "a step sent SIG");
    job_expect_to_go_on(job);
    assert_int_equal(kill(agent_outside(job, &restricted[i]), SIGTERM), 0);
    job_expect_exit(job, 128 + SIGTERM);
  }
  start_in(job, &restricted[1]);
  job_expect_to_go_on(job);
  job_stop_agent(job, SIGTERM);
}

/* Runs each attack on the agent and then on the step's own shell. */
#define EACH(NAMES, PID) "for i in " NAMES "; do %s $i " PID "; done | uniq -c | tr -s ' '"

JOB_TEST_NO_AGENT(a_step_cannot_change_the_limits_of_the_agent) {
  for (size_t i = 0; i < sizeof restricted / sizeof *restricted; i++) {
    start_in(job, &restricted[i]);
    const char *script = job_format(job, EACH(ATTACKS "%s nice-user io-user", "%s"),
                                    foreign_attacks(), command_path("attack"), agent_inside[i]);
    job_expect_result(job, job_run(job, job_script(job, script)), 0, NULL, " 13 EPERM\n");
    script = job_format(job, "(" EACH(ATTACKS "%s", "$$") ")", foreign_attacks(),
                        command_path("attack"));
    job_expect_result(job, job_run(job, job_script(job, script)), 0, NULL, " 11 done\n");
    job_expect_to_go_on(job);
    job_shut_down(job);
  }
}

/* The command, its first child and its supervisor have the score 1000; the agent keeps its own. */
JOB_TEST_NO_AGENT(the_kernel_kills_a_step_for_memory_before_the_agent) {
  static const char wait[] =
      "sleep 60 & for i in $$ $!; do "
      "until [ $(cat /proc/$i/oom_score_adj) = 1000 ]; do :; done; done; "
      "kill $!; cat /proc/self/oom_score_adj /proc/$PPID/oom_score_adj /proc/%s/oom_score_adj";
  char *own = proc_read(getpid(), "oom_score_adj", NULL);
  for (size_t i = 0; i < sizeof restricted / sizeof *restricted; i++) {
    start_in(job, &restricted[i]);
    const cJSON *result = job_run(job, job_script(job, job_format(job, wait, agent_inside[i])));
    job_expect_result(job, result, 0, NULL, job_format(job, "1000\n1000\n%s", own));
    job_shut_down(job);
  }
  free(own);
}

/* An ordinary user cannot read an injected agent. The kernel lets such an agent raise a score only
   as process 1. */
JOB_TEST_NO_AGENT(an_injected_agent_raises_oom_scores_as_process_1) {
  const char *copy = job_path(job, "agent");
  injection_expect_success(agent_process_start(
      &(struct agent_setup){.arguments = (const char *[]){"--inject", copy, NULL}}));
  struct stat file;
  assert_int_equal(stat(copy, &file), 0);
  assert_int_equal(file.st_mode, S_IFREG | 0111);
  char *own = proc_read(getpid(), "oom_score_adj", NULL);
  for (size_t i = 0; i < sizeof restricted / sizeof *restricted; i++) {
    job->setup.program = copy;
    start_in(job, &restricted[i]);
    const char *script =
        job_format(job,
                   "cat /proc/self/oom_score_adj /proc/$PPID/oom_score_adj /proc/%s/oom_score_adj; "
                   "stat -c %%u /proc/%s/environ",
                   agent_inside[i], agent_inside[i]);
    const char *expected = i == 0 ? job_format(job, "1000\n1000\n%s0\n", own)
                                  : job_format(job, "%s%s%s0\n", own, own, own);
    job_expect_result(job, job_run(job, job_script(job, script)), 0, NULL, expected);
    job_shut_down(job);
  }
  free(own);
}

/* A sanitizer keeps freed memory, so that its agent does not fit. */
TEST_WITH_IF(agent_process_is_shipped(), struct job *job, payloads_may_use_an_eighth_of_the_memory,
             job_setup_server, job_teardown) {
  enum { LIMIT = 64 * 1024 * 1024, SHARE = LIMIT / 8 };
  struct memory_group group;
  memory_group_init(&group, LIMIT);
  job->setup.prepare = memory_group_enter;
  job->setup.prepare_context = &group;
  job_push_larger(job, "large", SHARE);
  job_start_agent(job, NULL);
  const cJSON *result = job_result(job);
  assert_string_equal(job_text(result, "stepId"), "large");
  job_expect_result(job, result, -1,
                    "payload: expected at most 8388608 bytes, an eighth of this container's memory",
                    NULL);
  cJSON *step = job_step(job, "true", NULL);
  char *filler = calloc(1, SHARE - 4096);
  memset(filler, 'x', SHARE - 4096 - 1);
  cJSON_AddStringToObject(step, "ignored", filler);
  free(filler);
  job_expect_result(job, job_run(job, step), 0, NULL, NULL);
  job_shut_down(job);
  memory_group_release(&group);
}
