/* Sandbox policies together with limits, with working directories, and the agent's lists of
   commands. */

#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/fence_trial.h"
#include "tests/support/job.h"
#include "tests/test.h"

FENCE_GROUP()

static const cJSON *result_of(const struct fence_outcome *outcome) {
  return cJSON_GetArrayItem(outcome->events, cJSON_GetArraySize(outcome->events) - 1);
}

/* The listener of the filter is the only descriptor that a policy leaves open for a moment. */
FENCE_TEST(network_loopback_needs_no_descriptor_of_the_step) {
  static const char step[] = "{'command':'sh','args':['-c','ulimit -n'],"
                             "'fence':{'network':'loopback'},'limits':{'openFiles':4}}";
  fence_trial_expect(trial, &(struct fence_step){.json = step}, "4");
}

static void limit_processor_time(const void *context) {
  const struct rlimit limit = {.rlim_cur = 100, .rlim_max = 100};
  (void)context;
  assert_int_equal(setrlimit(RLIMIT_CPU, &limit), 0);
}

/* The supervisor that works on files has used processor time before, but cannot raise the limit. */
FENCE_TEST(a_limit_of_processor_time_above_that_of_the_agent_counts_for_no_file_kind) {
  static const char *const limits[] = {"97", "100", "600"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    struct fence_outcome outcome;
    const char *step =
        formatted("{'kind':'readFile','path':'@/in/file','limits':{'cpuSeconds':%s}}", limits[i]);
    fence_trial_run(trial, &(struct fence_step){.json = step, .prepare = limit_processor_time},
                    &outcome);
    if (cJSON_GetNumberValue(cJSON_GetObjectItem(result_of(&outcome), "exitCode")) != 0)
      fail_msg("%s s: %s", limits[i], outcome.answer);
  }
}

/* The agent runs in the directory of the trial. */
FENCE_TEST(a_denial_below_a_relative_working_directory_names_the_file) {
  struct fence_outcome outcome;
  static const char step[] = "{'command':'sh','args':['-c','echo x >new'],"
                             "'workingDirectory':'out','fence':{'writePaths':['@/in']}}";
  fence_trial_run(trial, &(struct fence_step){.json = step}, &outcome);
  const cJSON *denials =
      cJSON_GetObjectItem(cJSON_GetObjectItem(result_of(&outcome), "fence"), "denials");
  const char *path = cJSON_GetStringValue(cJSON_GetObjectItem(denials->child, "path"));
  assert_string_equal(path, fence_trial_text(trial, "@/out/new"));
}

/* Its message has a part of the path only. */
FENCE_TEST(a_denial_never_has_a_path_that_was_cut) {
  struct fence_outcome outcome;
  const char *step = formatted("{'kind':'writeFile','path':'@/out/%0120d/%0120d/new','content':'x',"
                               "'fence':{'writePaths':['@/in']}}",
                               0, 0);
  fence_trial_run(trial, &(struct fence_step){.json = step}, &outcome);
  assert_non_null(strstr(outcome.answer, "outside the sandbox policy: "));
  assert_non_null(strstr(outcome.answer, "…"));
  assert_null(cJSON_GetObjectItem(result_of(&outcome), "fence"));
}

/* An earlier step may have made the link. */
FENCE_TEST(relative_paths_do_not_follow_a_link_to_the_working_directory) {
  static const char *const steps[] = {
      "{'command':'touch','args':['new'],'workingDirectory':'@/link','fence':{'writePaths':['.']}}",
      "{'kind':'writeFile','path':'new','content':'x','workingDirectory':'@/link',"
      "'fence':{'writePaths':['.']}}"};
  const char *link = fence_trial_text(trial, "@/link");
  assert_int_equal(symlink("out", link), 0);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    struct fence_outcome outcome;
    fence_trial_run(trial, &(struct fence_step){.json = steps[i]}, &outcome);
    if (strstr(outcome.answer, "link: a symbolic link is on the path") == NULL)
      fail_msg("%s: %s", steps[i], outcome.answer);
    assert_int_not_equal(access(fence_trial_text(trial, "@/out/new"), F_OK), 0);
  }
  assert_int_equal(unlink(link), 0);
}

/* The message has the beginning and the end of the path, which would show a part of the secret. */
FENCE_TEST(a_secret_in_a_refused_path_is_masked_before_the_reason_is_cut) {
  struct fence_outcome outcome;
  const char *step = formatted("{'command':'true','env':{'S':'supersecretvalue'},'secrets':['S'],"
                               "'fence':{'writePaths':['/%066dsupersecretvalue%0200d']}}",
                               0, 0);
  fence_trial_run(trial, &(struct fence_step){.json = step}, &outcome);
  assert_non_null(strstr(outcome.answer, "fence.writePaths[0] /"));
  assert_null(strstr(outcome.answer, "supers"));
}

/* The next step would run in the same supervisor, and its command has the scheduling of that. The
   field is the policy, 0 for SCHED_OTHER. */
JOB_TEST(the_scheduling_that_a_confined_step_gave_its_supervisor_does_not_outlive_it) {
  cJSON *step = job_script(job, "chrt --idle --pid 0 $PPID");
  cJSON_AddItemToObject(step, "fence", cJSON_CreateObject());
  job_expect_result(job, job_run(job, step), 0, NULL, NULL);
  const cJSON *next = job_run(job, job_script(job, "cut -d' ' -f41 /proc/self/stat"));
  job_expect_result(job, next, 0, NULL, "0\n");
}

JOB_TEST_NO_AGENT(the_lists_of_commands_are_separated_by_commas_and_blanks) {
  static const struct {
    const char *flag, *names, *command;
    bool is_refused;
  } rows[] = {
      {"--deny-commands", "curl,sh", "sh", true},
      {"--deny-commands", "curl, sh", "/bin/sh", true},
      {"--deny-commands", "shell, s", "sh", false},
      {"--allow-commands", "true, sh", "sh", false},
      {"--allow-commands", "true,bash", "sh", true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    job_start_agent(job, rows[i].flag, rows[i].names, NULL);
    const cJSON *result = job_run(job, job_step(job, rows[i].command, "-c", "exit 0", NULL));
    job_expect_result(job, result, rows[i].is_refused ? -1 : 0,
                      rows[i].is_refused ? "command not allowed: sh" : NULL, NULL);
    job_shut_down(job);
  }
}
