/* `agent --ipc`: claims, restarts, cancels and the end of the agent. */

#include "tests/support/container.h"
#include "tests/support/proc.h"
#include "tests/support/sidecar.h"
#include "tests/test.h"

/* File times and the clock of the loop have the resolution of the kernel's tick. */
#define TICK_MS 10

#define INTERRUPTED                                                                                \
  "tool-executor: interrupted: the sidecar ended while this request was running; it was not run "  \
  "again"

/* --- claims ----------------------------------------------------------------------------------- */

SIDECAR_TEST(only_one_of_two_agents_runs_a_request) {
  enum { REQUESTS = 60 };
  struct agent_process *other = sidecar_spawn(sidecar, NULL);
  agent_process_wait_log(other, "started");
  sidecar_start(sidecar, NULL);
  for (int i = 0; i < REQUESTS; i++)
    sidecar_request(sidecar, formatted("%d", i),
                    formatted("{'command':'echo %d >>%s/ran'}", i, sidecar->path));
  for (int i = 0; i < REQUESTS; i++) {
    sidecar_expect(sidecar, formatted("%d", i), 0, "", "");
    sidecar_delete(sidecar, formatted("%d", i));
  }
  for (int i = 0; i < REQUESTS; i++)
    sidecar_wait_gone(sidecar, sidecar_claim_name(formatted("%d", i)));
  struct stat file;
  assert_int_equal(stat(sidecar_path(sidecar, "ran"), &file), 0);
  assert_int_equal(file.st_size, 10 * 2 + (REQUESTS - 10) * 3);
  print_message("%d and %d of them\n", agent_process_count_log(sidecar->agent, "done ["),
                agent_process_count_log(other, "done ["));
  agent_process_free(other);
}

/* The scripts of other sidecars, with the timeout(1) of coreutils and that of busybox. */
SIDECAR_TEST(each_request_runs_once_if_scripts_also_serve_it) {
  enum { REQUESTS = 40 };
  static const char *const limits[] = {"timeout", "busybox timeout"};
  struct agent_process *scripts[2];
  tree_make(sidecar->tree, "tools/");
  for (int i = 0; i < REQUESTS; i++)
    sidecar_request_whole(sidecar, formatted("%d", i),
                          formatted("{'command':'echo %d >>%s/ran'}", i, sidecar->path));
  for (int i = 0; i < 2; i++) {
    const char *const arguments[] = {"tests/support/executor.sh", sidecar_path(sidecar, "tools"),
                                     limits[i], NULL};
    scripts[i] =
        agent_process_start(&(struct agent_setup){.arguments = arguments, .program = "/bin/bash"});
  }
  sidecar_wait_for(sidecar, "ran");
  sidecar_start(sidecar, NULL);
  for (int i = 0; i < REQUESTS; i++)
    sidecar_expect(sidecar, formatted("%d", i), 0, "", "");
  struct stat file;
  assert_int_equal(stat(sidecar_path(sidecar, "ran"), &file), 0);
  assert_int_equal(file.st_size, 10 * 2 + (REQUESTS - 10) * 3);
  for (int i = 0; i < 2; i++)
    agent_process_free(scripts[i]);
}

SIDECAR_TEST(the_agent_does_not_run_requests_claimed_by_a_script) {
  tree_make(sidecar->tree, "tools/ tools/.claim-1/");
  sidecar_request(sidecar, "1", "{'command':'echo no'}");
  sidecar_start(sidecar, NULL);
  tree_make(sidecar->tree, "tools/.claim-2/");
  sidecar_request(sidecar, "2", "{'command':'echo no'}");
  sidecar_request(sidecar, "3", "{'command':'echo 3'}");
  sidecar_expect(sidecar, "3", 0, "3", "");
  assert_true(mkdir(sidecar_path(sidecar, sidecar_claim_name("3")), 0755) !=
              0); /* as a script claims */
  assert_false(sidecar_has(sidecar, sidecar_result_name("1")));
  assert_false(sidecar_has(sidecar, sidecar_result_name("2")));
  /* The script answers, and the runner deletes both files: the claim stays, as without an agent. */
  sidecar_write(sidecar, sidecar_result_name("2"), "{}", 2);
  sidecar_delete(sidecar, "2");
  sidecar_delete(sidecar, "3");
  sidecar_wait_gone(sidecar, sidecar_claim_name("3"));
  assert_true(sidecar_has(sidecar, sidecar_claim_name("2")));
}

SIDECAR_TEST(the_agent_does_not_run_answered_requests) {
  tree_make(sidecar->tree, "tools/ tools/exec-result-1.json={}");
  sidecar_request(sidecar, "1", "{'command':'echo no'}");
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "2", "{'command':'echo 2'}");
  sidecar_expect(sidecar, "2", 0, "2", "");
  tree_expect(sidecar->tree, "tools/exec-result-1.json", "{}", 0644);
  assert_false(sidecar_has(sidecar, sidecar_claim_name("1")));
}

/* The runner never rewrites a request, but others might. */
SIDECAR_TEST(a_rewritten_request_does_not_run_again) {
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "1", "{'command':'echo first'}");
  sidecar_expect(sidecar, "1", 0, "first", "");
  sidecar_request(sidecar, "1", "{'command':'echo second'}");
  sidecar_request(sidecar, "2", "{'command':'echo 2'}");
  sidecar_expect(sidecar, "2", 0, "2", "");
  sidecar_expect(sidecar, "1", 0, "first", "");
  /* After both files were deleted, the id may be used again. */
  sidecar_delete(sidecar, "1");
  sidecar_wait_gone(sidecar, sidecar_claim_name("1"));
  sidecar_request(sidecar, "1", "{'command':'echo third'}");
  sidecar_expect(sidecar, "1", 0, "third", "");
}

/* --- restart ---------------------------------------------------------------------------------- */

SIDECAR_TEST(a_restarted_agent_answers_claimed_requests_without_running_them) {
  const char *const arguments[] = {"--concurrency=2", NULL};
  const struct agent_setup setup = {.arguments = arguments};
  sidecar_start(sidecar, &setup);
  sidecar_request(sidecar, "answered", "{'command':'true'}");
  (void)sidecar_result(sidecar, "answered");
  sidecar_request(sidecar, "running",
                  formatted("{'command':'echo x >>%s/ran; exec sleep 600.077'}", sidecar->path));
  sidecar_request(sidecar, "deleted", "{'command':'exec sleep 600.079'}");
  pid_t commands[] = {proc_wait_for("sleep 600.077", WAIT_BOUND_MS),
                      proc_wait_for("sleep 600.079", WAIT_BOUND_MS)};
  assert_true(commands[0] > 0 && commands[1] > 0);
  sidecar_request(sidecar, "waiting", "{'command':'echo runs later'}");
  sidecar_wait_known(sidecar, 4);
  sidecar_kill(sidecar);
  for (int i = 0; i < 2; i++)
    (void)kill(commands[i], SIGKILL);
  assert_int_equal(unlink(sidecar_path(sidecar, sidecar_request_name("deleted"))), 0);
  sidecar_start(sidecar, &setup);
  sidecar_expect(sidecar, "running", 125, "", INTERRUPTED);
  sidecar_expect(sidecar, "waiting", 0, "runs later", "");
  sidecar_expect(sidecar, "answered", 0, "", "");
  sidecar_wait_gone(sidecar, sidecar_claim_name("deleted"));
  tree_expect(sidecar->tree, "ran", "x\n", 0644);
  static const char *const ids[] = {"running", "waiting", "answered"};
  for (size_t i = 0; i < 3; i++) {
    sidecar_delete(sidecar, ids[i]);
    sidecar_wait_gone(sidecar, sidecar_claim_name(ids[i]));
  }
  assert_int_equal(agent_process_count_log(sidecar->agent, "exec ["), 1);
}

/* Even if the runner deletes the result first. A later request may have the same id. */
SIDECAR_TEST(a_restarted_agent_does_not_run_an_answered_request_again) {
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "1", formatted("{'command':'echo x >>%s/ran'}", sidecar->path));
  sidecar_expect(sidecar, "1", 0, "", "");
  sidecar_kill(sidecar);
  assert_int_equal(unlink(sidecar_path(sidecar, sidecar_result_name("1"))), 0);
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "2", "{'command':'true'}");
  sidecar_expect(sidecar, "2", 0, "", "");
  assert_false(sidecar_has(sidecar, sidecar_result_name("1")));
  tree_expect(sidecar->tree, "ran", "x\n", 0644);
  assert_int_equal(unlink(sidecar_path(sidecar, sidecar_request_name("1"))), 0);
  sidecar_request(sidecar, "1", "{'command':'echo again'}");
  sidecar_expect(sidecar, "1", 0, "again", "");
}

SIDECAR_TEST(a_living_agent_answers_for_a_dead_one) {
  struct agent_process *other = sidecar_spawn(sidecar, NULL);
  agent_process_wait_log(other, "started");
  sidecar_request(sidecar, "1", "{'command':'exec sleep 600.078'}");
  pid_t command = proc_wait_for("sleep 600.078", WAIT_BOUND_MS);
  assert_true(command > 0);
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "2", "{'command':'true'}");
  (void)sidecar_result(sidecar, "2");
  assert_false(sidecar_has(sidecar, sidecar_result_name("1")));
  assert_int_equal(kill(agent_process_pid(other), SIGKILL), 0);
  (void)agent_process_wait(other, WAIT_BOUND_MS);
  agent_process_free(other);
  sidecar_expect(sidecar, "1", 125, "", INTERRUPTED);
  (void)kill(command, SIGKILL);
}

/* The other agent claims the request after this one has read it. */
SIDECAR_TEST(a_busy_agent_answers_for_a_dead_one) {
  const char *const arguments[] = {"--concurrency=1", NULL};
  sidecar_start(sidecar, &(struct agent_setup){.arguments = arguments});
  sidecar_request(sidecar, "busy", "{'command':'exec sleep 600.071','timeout':120}");
  assert_true(proc_wait_for("sleep 600.071", WAIT_BOUND_MS) > 0);
  sidecar_request(sidecar, "1", "{'command':'exec sleep 600.072'}");
  sidecar_wait_known(sidecar, 2);
  struct agent_process *other = sidecar_spawn(sidecar, NULL);
  pid_t command = proc_wait_for("sleep 600.072", WAIT_BOUND_MS);
  assert_true(command > 0);
  agent_process_free(other);
  sidecar_expect(sidecar, "1", 125, "", INTERRUPTED);
  assert_true(proc_find("sleep 600.071") > 0);
}

/* --- cancel ----------------------------------------------------------------------------------- */

SIDECAR_TEST(a_deleted_request_is_cancelled) {
  const char *const arguments[] = {"--concurrency=1", NULL};
  sidecar_start(sidecar, &(struct agent_setup){.arguments = arguments});
  sidecar_request(sidecar, "1", "{'command':'setsid sleep 600.081 & sleep 600.082'}");
  assert_true(proc_wait_for("sleep 600.081", WAIT_BOUND_MS) > 0);
  sidecar_request(sidecar, "2", "{'command':'echo no'}");
  sidecar_wait_known(sidecar, 2);
  assert_int_equal(unlink(sidecar_path(sidecar, sidecar_request_name("2"))), 0);
  assert_int_equal(unlink(sidecar_path(sidecar, sidecar_request_name("1"))), 0);
  sidecar_wait_gone(sidecar, sidecar_claim_name("1"));
  assert_int_equal(proc_find("sleep 600.081"), 0);
  assert_int_equal(proc_find("sleep 600.082"), 0);
  sidecar_request(sidecar, "3", "{'command':'echo 3'}");
  sidecar_expect(sidecar, "3", 0, "3", "");
  assert_int_equal(agent_process_count_log(sidecar->agent, "exec ["), 2);
  assert_int_equal(tree_count(sidecar->tree, "tools"), 3);
}

SIDECAR_TEST(a_new_request_may_reuse_the_name_of_a_cancelled_one) {
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "1", "{'command':'trap \\\"\\\" TERM; sleep 600.083; echo no'}");
  assert_true(proc_wait_for("sleep 600.083", WAIT_BOUND_MS) > 0);
  assert_int_equal(unlink(sidecar_path(sidecar, sidecar_request_name("1"))), 0);
  assert_true(proc_wait_gone("sleep 600.083", WAIT_BOUND_MS));
  sidecar_request(sidecar, "1", "{'command':'echo again'}");
  sidecar_expect(sidecar, "1", 0, "again", "");
}

/* --- the end ---------------------------------------------------------------------------------- */

SIDECAR_TEST(no_request_runs_if_done_exists_at_the_start) {
  tree_make(sidecar->tree, "done=done tools/");
  sidecar_request(sidecar, "1", "{'command':'echo no'}");
  sidecar->agent = sidecar_spawn(sidecar, NULL);
  assert_int_equal(agent_process_wait(sidecar->agent, WAIT_BOUND_MS), 0);
  agent_process_wait_log(sidecar->agent, "[tool-executor] agent done, exiting\n");
  assert_int_equal(tree_count(sidecar->tree, "tools"), 1);
}

SIDECAR_TEST(a_directory_named_done_is_ignored) {
  tree_make(sidecar->tree, "done/");
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "1", "{'command':'echo x'}");
  sidecar_expect(sidecar, "1", 0, "x", "");
}

/* The milliseconds between the last changes of two files. */
static int64_t ms_between(struct sidecar *sidecar, const char *first, const char *second) {
  struct stat a;
  struct stat b;
  assert_int_equal(stat(sidecar_path(sidecar, first), &a), 0);
  assert_int_equal(stat(sidecar_path(sidecar, second), &b), 0);
  return (b.st_mtim.tv_sec - a.st_mtim.tv_sec) * (int64_t)1000 +
         (b.st_mtim.tv_nsec - a.st_mtim.tv_nsec) / 1000000;
}

/* The first request ends by itself within its second. If the machine stalls for that long, it gets
   SIGTERM, but not earlier. The second request obeys SIGTERM, the third ignores it. */
SIDECAR_TEST(at_done_running_requests_have_a_second_and_are_then_ended) {
  static const char *const settings[] = {"SANDBOX_CONCURRENCY=3", NULL};
  sidecar_start(sidecar, &(struct agent_setup){.environment = settings});
  sidecar_request(
      sidecar, "1",
      formatted("{'command':'touch %s/up; until [ -e %s/done ]; do sleep 0.02; done; :'}",
                sidecar->path, sidecar->path));
  sidecar_request(sidecar, "2", "{'command':'exec sleep 600.084'}");
  sidecar_request(sidecar, "3", "{'command':'trap \\\"\\\" TERM; sleep 600.085; sleep 600.085'}");
  sidecar_wait_for(sidecar, "up");
  assert_true(proc_wait_for("sleep 600.084", WAIT_BOUND_MS) > 0);
  assert_true(proc_wait_for("sleep 600.085", WAIT_BOUND_MS) > 0);
  sidecar_request(sidecar, "4", "{'command':'true'}");
  sidecar_wait_known(sidecar, 4);
  sidecar_write(sidecar, "done", "done", 4);
  assert_int_equal(agent_process_wait(sidecar->agent, WAIT_BOUND_MS), 0);
  assert_int_equal(agent_process_count_log(sidecar->agent, "agent done, exiting"), 1);
  static const char stopped[] = "tool-executor: stopped by the end of the agent";
  const cJSON *first = sidecar_result(sidecar, "1");
  if (cJSON_GetObjectItem(first, "exitCode")->valueint != 0) {
    const char *name = sidecar_result_name("1");
    assert_in_range(ms_between(sidecar, "done", name), 1000 - TICK_MS, WAIT_BOUND_MS);
    sidecar_expect(sidecar, "1", 125, "", stopped);
  }
  sidecar_expect(sidecar, "2", 125, "", stopped);
  sidecar_expect(sidecar, "3", 125, "", stopped);
  sidecar_expect(sidecar, "4", 125, "", stopped);
  assert_int_equal(proc_find("sleep 600.084"), 0);
  assert_int_equal(proc_find("sleep 600.085"), 0);
}

SIDECAR_TEST(a_signal_ends_and_answers_all_requests) {
  static const char *const settings[] = {"SANDBOX_CONCURRENCY=2", NULL};
  sidecar_start(sidecar, &(struct agent_setup){.environment = settings});
  sidecar_request(sidecar, "1", "{'command':'echo out; echo err >&2; exec sleep 600.086'}");
  sidecar_request(sidecar, "2", "{'command':'trap \\\"\\\" TERM; sleep 600.087; sleep 600.087'}");
  assert_true(proc_wait_for("sleep 600.086", WAIT_BOUND_MS) > 0);
  assert_true(proc_wait_for("sleep 600.087", WAIT_BOUND_MS) > 0);
  sidecar_request(sidecar, "3", "{'command':'true'}");
  sidecar_wait_known(sidecar, 3);
  assert_int_equal(kill(agent_process_pid(sidecar->agent), SIGTERM), 0);
  assert_int_equal(agent_process_wait(sidecar->agent, WAIT_BOUND_MS), 128 + SIGTERM);
  sidecar_expect(sidecar, "1", 125, "out", "err\ntool-executor: stopped by SIGTERM");
  sidecar_expect(sidecar, "2", 125, "", "tool-executor: stopped by SIGTERM");
  sidecar_expect(sidecar, "3", 125, "", "tool-executor: stopped by SIGTERM");
  assert_int_equal(proc_find("sleep 600.087"), 0);
}

/* The agent is process 1 of a container of the restricted pod security standard. Its group owns the
   directory. */
SIDECAR_TEST(the_agent_serves_and_exits_in_a_restricted_pod) {
  const struct container pod = {.restricted = true};
  assert_int_equal(chown(sidecar->path, 0, CONTAINER_USER), 0);
  assert_int_equal(chmod(sidecar->path, 02777), 0);
  sidecar_start(sidecar, &(struct agent_setup){.container = &pod});
  struct stat file;
  assert_int_equal(stat(sidecar_path(sidecar, "tools"), &file), 0);
  assert_int_equal(file.st_mode & 0777, 0777);
  const cJSON *result = sidecar_dispatch(
      sidecar, "1", "{'command':'setsid sleep 600.088 & id -u','workDir':'/tmp'}", WAIT_BOUND_MS);
  assert_non_null(result);
  assert_string_equal(cJSON_GetObjectItem(result, "stdout")->valuestring, "1000");
  sidecar_wait_gone(sidecar, sidecar_claim_name("1"));
  sidecar_write(sidecar, "done", "done", 4);
  assert_int_equal(agent_process_wait(sidecar->agent, WAIT_BOUND_MS), 0);
  assert_int_equal(proc_find("sleep 600.088"), 0);
}

TEST_OVERLAP(6)
