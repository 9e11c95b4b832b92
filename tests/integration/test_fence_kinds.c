/* The file kinds with a sandbox policy, and the policy of an agent with each frontend. */

#include "tests/support/fence_trial.h"
#include "tests/support/http_steps.h"
#include "tests/support/job.h"
#include "tests/support/sidecar.h"
#include "tests/support/stdio_host.h"
#include "tests/test.h"

FENCE_GROUP()

#define WRITE_PATHS "{'writePaths':['@/in']}"
#define READ_PATHS "{'readPaths':['@/in']}"

/* --- the file kinds --- */

struct row {
  const char *step, *fence;
  const char *outside; /* the path in the message; NULL: the step succeeds */
};

static int result_code(const struct fence_outcome *outcome) {
  const cJSON *result =
      cJSON_GetArrayItem(outcome->events, cJSON_GetArraySize(outcome->events) - 1);
  return (int)cJSON_GetNumberValue(cJSON_GetObjectItem(result, "exitCode"));
}

/* Returns the number of failures. `agent` makes the policy that of the agent. */
static int check(struct fence_trial *trial, const struct row *row, enum fence_place place,
                 bool by_agent) {
  struct fence_step step = {.place = place, .json = row->step};
  struct fence_outcome without, with;
  fence_trial_run(trial, &step, &without);
  *(by_agent ? &step.agent_fence : &step.fence) = row->fence;
  fence_trial_run(trial, &step, &with);
  const char *expected = row->outside == NULL ? ""
                                              : formatted("outside the sandbox policy: %s",
                                                          fence_trial_text(trial, row->outside));
  bool passed = result_code(&without) == 0 && (row->outside == NULL) == (result_code(&with) == 0) &&
                strstr(with.answer, expected) != NULL;
  if (!passed)
    print_message("FAILED %s, %s, %s %s: without: %s, with: %s, not %s\n", row->step,
                  fence_place_name(place), by_agent ? "--fence" : "fence", row->fence,
                  without.answer, with.answer, expected);
  return passed ? 0 : 1;
}

static void check_rows(struct fence_trial *trial, const struct row *rows, size_t count) {
  int failed = 0;
  for (size_t i = 0; i < count; i++)
    for (int place = 0; place < FENCE_PLACES; place++)
      if (!fence_trial_is_here() || place == FENCE_INIT)
        failed += check(trial, &rows[i], (enum fence_place)place, false) +
                  check(trial, &rows[i], (enum fence_place)place, true);
  assert_int_equal(failed, 0);
}

FENCE_TEST(kinds_that_write_stay_within_the_write_paths) {
  static const struct row rows[] = {
      {"{'kind':'writeFile','path':'@/out/new','content':'x'}", WRITE_PATHS, "@/out/new"},
      {"{'kind':'writeFile','path':'@/out/file','content':'x'}", WRITE_PATHS, "@/out/file"},
      {"{'kind':'writeFile','path':'@/out/a/b/new','content':'x'}", WRITE_PATHS, "@/out/a/b/new"},
      {"{'kind':'writeFile','path':'@/in/link/new','content':'x'}", WRITE_PATHS, "@/in/link/new"},
      {"{'kind':'writeFile','path':'out/new','workingDirectory':'@','content':'x'}", WRITE_PATHS,
       "@/out/new"},
      {"{'kind':'writeBytes','path':'@/out/new','content':'eA=='}", WRITE_PATHS, "@/out/new"},
      {"{'kind':'editFile','path':'@/out/file','edits':[{'oldString':'text','newString':'x'}]}",
       WRITE_PATHS, "@/out/file"},
      {"{'kind':'writeFile','path':'@/in/new','content':'x'}", WRITE_PATHS, NULL},
      {"{'kind':'writeFile','path':'@/in/a/b/new','content':'x'}", WRITE_PATHS, NULL},
      {"{'kind':'writeFile','path':'@/in/file','content':'x'}", WRITE_PATHS, NULL},
      {"{'kind':'writeBytes','path':'@/in/new','content':'eA=='}", WRITE_PATHS, NULL},
      {"{'kind':'editFile','path':'@/in/file','edits':[{'oldString':'text','newString':'x'}]}",
       WRITE_PATHS, NULL},
      {"{'kind':'readFile','path':'@/out/file'}", WRITE_PATHS, NULL},
      {"{'kind':'writeFile','path':'@/in/new','content':'x'}", "{'network':'none'}", NULL},
      {"{'kind':'writeFile','path':'@/in/new','content':'x'}", "{'network':'loopback'}", NULL},
      {"{'kind':'writeFile','path':'@/in/new','content':'x'}", "{}", NULL},
  };
  check_rows(trial, rows, sizeof rows / sizeof *rows);
}

/* To write a file needs no right to read it. */
FENCE_TEST(only_read_paths_keep_no_kind_from_writing) {
  static const struct row rows[] = {
      {"{'kind':'writeFile','path':'@/out/new','content':'x'}", READ_PATHS, NULL},
      {"{'kind':'writeFile','path':'@/out/file','content':'x'}", READ_PATHS, NULL},
      {"{'kind':'writeBytes','path':'@/out/new','content':'eA=='}", READ_PATHS, NULL},
      {"{'kind':'editFile','path':'@/out/file','edits':[{'oldString':'text','newString':'x'}]}",
       READ_PATHS, "@/out/file"},
      {"{'kind':'editFile','path':'@/in/file','edits':[{'oldString':'text','newString':'x'}]}",
       READ_PATHS, NULL},
  };
  check_rows(trial, rows, sizeof rows / sizeof *rows);
}

FENCE_TEST(an_edit_outside_the_read_paths_is_denied_as_reading) {
  struct fence_outcome outcome;
  static const char step[] = "{'kind':'editFile','path':'@/out/file','fence':" READ_PATHS
                             ",'edits':[{'oldString':'text','newString':'x'}]}";
  fence_trial_run(trial, &(struct fence_step){.json = step}, &outcome);
  const cJSON *result = cJSON_GetArrayItem(outcome.events, cJSON_GetArraySize(outcome.events) - 1);
  char *fence = cJSON_PrintUnformatted(cJSON_GetObjectItem(result, "fence"));
  assert_string_equal(fence, quoted(fence_trial_text(trial, "{'missing':[],'denials':[{"
                                                            "'access':'read','path':'@/out/file',"
                                                            "'certain':true}]}")));
  cJSON_free(fence);
}

FENCE_TEST(kinds_that_read_stay_within_the_read_paths) {
  static const struct row rows[] = {
      {"{'kind':'readFile','path':'@/out/file'}", READ_PATHS, "@/out/file"},
      {"{'kind':'readFile','path':'@/in/link/file'}", READ_PATHS, "@/in/link/file"},
      {"{'kind':'readBytes','path':'@/out/file'}", READ_PATHS, "@/out/file"},
      {"{'kind':'listFiles','path':'@/out'}", READ_PATHS, "@/out"},
      {"{'kind':'directoryTree','path':'@/out'}", READ_PATHS, "@/out"},
      {"{'kind':'grep','path':'@/out','pattern':'text'}", READ_PATHS, "@/out"},
      {"{'kind':'readFile','path':'@/in/file'}", READ_PATHS, NULL},
      {"{'kind':'readBytes','path':'@/in/file'}", READ_PATHS, NULL},
      {"{'kind':'listFiles','path':'@/in'}", READ_PATHS, NULL},
      {"{'kind':'directoryTree','path':'@/in'}", READ_PATHS, NULL},
      {"{'kind':'grep','path':'@/in','pattern':'text'}", READ_PATHS, NULL},
  };
  check_rows(trial, rows, sizeof rows / sizeof *rows);
}

/* --- frontends --- */

static bool is_intact(const struct fence_trial *trial) {
  return access(fence_trial_text(trial, "@/out/new"), F_OK) != 0;
}

/* The files, which steps of a trial make. */
static void prepare_files(struct fence_trial *trial) {
  fence_trial_expect(trial, &(struct fence_step){.script = "echo done"}, "done");
}

static const char *policy_of(const struct fence_trial *trial) {
  return quoted(fence_trial_text(trial, WRITE_PATHS));
}

/* A script that writes outside, and then inside. */
static const char *script_of(const struct fence_trial *trial) {
  return fence_trial_text(trial, "echo x >@/out/new; echo x >@/in/new && echo inside");
}

static void expect_only_inside(struct fence_trial *trial) {
  assert_true(is_intact(trial));
  assert_int_equal(access(fence_trial_text(trial, "@/in/new"), F_OK), 0);
}

FENCE_TEST(the_policy_of_an_agent_with_redis_is_that_of_its_steps) {
  prepare_files(trial);
  struct job *job = job_new(redis_server_start(NULL));
  job_start_agent(job, "--fence", policy_of(trial), NULL);
  const cJSON *result = job_run(job, job_script(job, script_of(trial)));
  job_expect_part(job, result, "outputContent", "inside\n");
  expect_only_inside(trial);
  job_shut_down(job);
  job_free(job);
}

/* A step that was confined leaves nothing behind for the next one. */
FENCE_TEST(the_policy_of_a_step_ends_with_the_step) {
  prepare_files(trial);
  struct job *job = job_new(redis_server_start(NULL));
  job_start_agent(job, NULL);
  static const char *const confined[] = {
      "{'command':'sh','args':['-c','echo x >@/out/new'],'fence':" WRITE_PATHS "}",
      "{'kind':'writeFile','path':'@/out/new','content':'x','fence':" WRITE_PATHS "}",
      "{'kind':'writeFile','path':'@/in/new','content':'x','fence':" WRITE_PATHS "}",
      "{'command':'true','fence':{'network':'loopback'}}",
      "{'command':'true','fence':{'writePaths':['@/none']}}",
  };
  for (size_t i = 0; i < sizeof confined / sizeof *confined; i++) {
    cJSON *step = job_own(job, cJSON_Parse(quoted(fence_trial_text(trial, confined[i]))));
    cJSON_AddStringToObject(step, "stepId", formatted("confined-%zu", i));
    (void)job_run(job, step);
    assert_true(is_intact(trial));
    const char *script = fence_trial_text(trial, "echo x >@/out/new && rm @/out/new && echo done");
    job_expect_result(job, job_run(job, job_script(job, script)), 0, NULL, "done\n");
    cJSON *write =
        job_own(job, cJSON_Parse(quoted(fence_trial_text(
                         trial, "{'kind':'writeFile','path':'@/out/after','content':'x'}"))));
    cJSON_AddStringToObject(write, "stepId", formatted("after-%zu", i));
    assert_int_equal(job_number(job_run(job, write), "exitCode"), 0);
  }
  job_shut_down(job);
  job_free(job);
}

static struct stdio_host *start_host(const struct fence_trial *trial, const char *mode) {
  const char *const arguments[] = {mode, "--fence", policy_of(trial), NULL};
  return stdio_host_start(
      &(struct stdio_host_setup){.arguments = arguments, .directory = trial->path});
}

static void wait_output(struct stdio_host *host, const char *part) {
  while (strstr(host->text, part) == NULL)
    if (!stdio_host_read(host))
      fail_msg("no `%s` in `%.2000s`; log: %s", part, host->text, stdio_host_log(host));
}

FENCE_TEST(the_policy_of_an_agent_with_stdio_is_that_of_its_steps) {
  prepare_files(trial);
  struct stdio_host *host = start_host(trial, "--stdio");
  stdio_host_send(
      host, formatted("{'id':1,'method':'execute','params':{'command':'%s'}}\n", script_of(trial)));
  wait_output(host, "inside");
  expect_only_inside(trial);
  stdio_host_free(host);
}

/* UDP is open because of the policy: the kernel could close it. */
FENCE_TEST(what_the_policy_of_an_agent_leaves_out_is_logged_once) {
  static const char words[] = "not enforced: udp";
  const char *const arguments[] = {"--stdio", "--fence",
                                   quoted("{'network':'loopback','bestEffort':true}"), NULL};
  struct stdio_host *host = stdio_host_start(
      &(struct stdio_host_setup){.arguments = arguments, .directory = trial->path});
  for (int i = 0; i < 3; i++)
    stdio_host_send(host, "{'id':1,'method':'execute','params':{'command':'echo done'}}\n");
  stdio_host_close_input(host);
  assert_int_equal(stdio_host_wait(host), 0);
  const char *logged = strstr(stdio_host_log(host), words);
  assert_non_null(logged);
  assert_null(strstr(logged + 1, words));
  stdio_host_free(host);
}

FENCE_TEST(what_the_policy_of_a_step_leaves_out_is_logged) {
  struct fence_outcome outcome;
  fence_trial_run(trial,
                  &(struct fence_step){.script = "echo done",
                                       .fence = "{'network':'loopback','bestEffort':true}"},
                  &outcome);
  assert_non_null(strstr(outcome.log, "not enforced: udp"));
}

FENCE_TEST(the_policy_of_an_agent_with_mcp_is_that_of_its_steps) {
  prepare_files(trial);
  struct stdio_host *host = start_host(trial, "--mcp");
  stdio_host_send(host, "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
                        "'protocolVersion':'2025-06-18','capabilities':{},"
                        "'clientInfo':{'name':'test','version':'1'}}}\n"
                        "{'jsonrpc':'2.0','method':'notifications/initialized'}\n");
  stdio_host_send(host, formatted("{'jsonrpc':'2.0','id':2,'method':'tools/call','params':{"
                                  "'name':'execute_command','arguments':{'command':'%s'}}}\n",
                                  script_of(trial)));
  wait_output(host, "inside");
  stdio_host_send(host,
                  fence_trial_text(trial, "{'jsonrpc':'2.0','id':3,'method':'tools/call','params':{"
                                          "'name':'write_file','arguments':{'path':'@/out/new',"
                                          "'content':'x'}}}\n"));
  wait_output(host, "outside the sandbox policy: ");
  expect_only_inside(trial);
  stdio_host_free(host);
}

FENCE_TEST(the_policy_of_an_agent_with_http_is_that_of_its_steps) {
  prepare_files(trial);
  struct http_agent *http;
  (void)http_agent_set_up((void **)&http);
  http_agent_start(http, (const char *const[]){"--fence", policy_of(trial), NULL}, NULL);
  const cJSON *result = http_steps_run(http, "1", http_steps_script(script_of(trial)));
  assert_string_equal(strstr(http_steps_text(result, "outputContent"), "inside"), "inside\n");
  expect_only_inside(trial);
  (void)http_agent_tear_down((void **)&http);
}

FENCE_TEST(a_policy_in_a_step_of_http_is_enforced) {
  prepare_files(trial);
  struct http_agent *http;
  (void)http_agent_set_up((void **)&http);
  http_agent_start(http, NULL, NULL);
  const char *step = quoted(formatted("{'command':'sh','args':['-c','%s'],'fence':%s}",
                                      script_of(trial), fence_trial_text(trial, WRITE_PATHS)));
  const cJSON *result = http_steps_run(http, "1", step);
  assert_non_null(strstr(http_steps_text(result, "outputContent"), "inside"));
  expect_only_inside(trial);
  (void)http_agent_tear_down((void **)&http);
}

FENCE_TEST(the_policy_of_an_agent_with_request_files_is_that_of_its_steps) {
  prepare_files(trial);
  struct sidecar *sidecar;
  (void)sidecar_set_up((void **)&sidecar);
  const char *const variables[] = {formatted("SANDBOX_FENCE=%s", policy_of(trial)), NULL};
  sidecar_start(sidecar, &(struct agent_setup){.environment = variables});
  sidecar_request(sidecar, "1", formatted("{'command':'%s'}", script_of(trial)));
  sidecar_wait_for(sidecar, sidecar_result_name("1"));
  expect_only_inside(trial);
  (void)sidecar_tear_down((void **)&sidecar);
}

TEST_OVERLAP(4)
