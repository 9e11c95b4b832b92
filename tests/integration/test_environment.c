/* The arguments, environment, directory, descriptors and signals of a command when it starts. */

#include "tests/support/job.h"

static const char *output_of(struct job *job, const cJSON *step) {
  const cJSON *result = job_run(job, step);
  const cJSON *output = cJSON_GetObjectItem(result, "outputContent");
  job_expect_result(job, result, 0, NULL, cJSON_IsString(output) ? output->valuestring : NULL);
  return job_text(result, "outputContent");
}

static void add_env(cJSON *step, const char *name, const char *value) {
  cJSON *env = cJSON_GetObjectItem(step, "env");
  cJSON_AddStringToObject(env == NULL ? cJSON_AddObjectToObject(step, "env") : env, name, value);
}

JOB_TEST(a_command_gets_its_arguments_unchanged) {
  const cJSON *step = job_step(job, "printf", "<%s>", "a b", "", "'q'", "\"dq\"", "$HOME", "`id`",
                               "*", "\\n", "~", "x\ny", "--", "é漢😀", ";", "\t\x01", NULL);
  assert_string_equal(output_of(job, step), "<a b><><'q'><\"dq\"><$HOME><`id`><*><\\n><~><x\ny><--"
                                            "><é漢😀><;><\t\x01>\n");
}

JOB_TEST(an_argument_beyond_the_limit_of_linux_is_named) {
  cJSON *step = job_step(job, "true", NULL);
  char *argument = job_format(job, "%0200000d", 0); /* an argument may have 128 KiB */
  cJSON_AddItemToArray(cJSON_GetObjectItem(step, "args"), cJSON_CreateString(argument));
  const cJSON *result = job_run(job, step);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, -1);
  job_expect_part(job, result, "errorMessage",
                  "argument 1 has 200000 bytes, and Linux takes at most 131071 (128 KiB)");
}

JOB_TEST_NO_AGENT(the_env_of_a_step_extends_that_of_the_agent) {
  const char *const environment[] = {"KEPT=from the agent", "TAKEN=from the agent", NULL};
  job->setup.environment = environment;
  job_start_agent(job, NULL);
  cJSON *step = job_script(job, "echo \"$KEPT,$TAKEN,$NEW\"; env | grep -c ^TAKEN=");
  add_env(step, "TAKEN", "from the step");
  add_env(step, "NEW", "a=b 'c'\"d\"");
  assert_string_equal(output_of(job, step), "from the agent,from the step,a=b 'c'\"d\"\n1\n");
  assert_string_equal(output_of(job, job_script(job, "echo \"$TAKEN,$NEW\"")), "from the agent,\n");
}

/* A shell would set PWD by itself. */
JOB_TEST_NO_AGENT(pwd_is_the_working_directory_unless_the_step_sets_it) {
  const char *const environment[] = {"PWD=/of/the/agent", NULL};
  const char *directory = redis_server_directory(job->server);
  job->setup.environment = environment;
  job_start_agent(job, NULL);
  cJSON *step = job_step(job, "printenv", "PWD", NULL);
  cJSON_AddStringToObject(step, "workingDirectory", job_format(job, "%s/.", directory));
  assert_string_equal(output_of(job, step), job_format(job, "%s\n", directory));
  add_env(step, "PWD", "of the step");
  cJSON_ReplaceItemInObject(step, "stepId", cJSON_CreateString("another"));
  assert_string_equal(output_of(job, step), "of the step\n");
}

JOB_TEST(a_command_gets_the_id_of_its_step) {
  const cJSON *step = job_script(job, "echo \"$SANDBOX_STEP_ID\"");
  assert_string_equal(output_of(job, step), job_format(job, "%s\n", job_text(step, "stepId")));
}

JOB_TEST(a_step_cannot_override_its_id_and_tag) {
  char id[128] = "", tag[128] = "";
  unsigned job_hash, number;
  unsigned long long start;
  int pid;
  cJSON *step = job_script(job, "env | grep ^SANDBOX_STEP_ | sort");
  add_env(step, "SANDBOX_STEP_ID", "x");
  add_env(step, "SANDBOX_STEP_TAG", "x");
  const char *output = output_of(job, step);
  assert_int_equal(sscanf(output, "SANDBOX_STEP_ID=%127s SANDBOX_STEP_TAG=%127s", id, tag), 2);
  assert_string_equal(output,
                      job_format(job, "SANDBOX_STEP_ID=%s\nSANDBOX_STEP_TAG=%s\n", id, tag));
  assert_string_equal(id, job_text(step, "stepId"));
  assert_int_equal(sscanf(tag, "%8x-%d-%llu-%u", &job_hash, &pid, &start, &number), 4);
  assert_int_equal(pid, agent_process_pid(job->agent));
  assert_int_equal(number, 1);
}

/* A directory, or a file that is not executable, does not end the search. */
JOB_TEST(the_search_of_path_skips_files_that_cannot_run) {
  const char *first = job_path(job, "first");
  const char *second = job_path(job, "second");
  assert_int_equal(mkdir(first, 0755) | mkdir(second, 0755), 0);
  job_write(job, "first/tool", "#!/bin/sh\necho wrong\n", 0644);
  job_write(job, "second/tool", "#!/bin/sh\necho right\n", 0755);
  cJSON *step = job_step(job, "tool", NULL);
  add_env(step, "PATH", job_format(job, "%s:%s:/usr/bin:/bin", first, second));
  assert_string_equal(output_of(job, step), "right\n");
}

JOB_TEST(a_relative_command_starts_at_the_working_directory) {
  job_write(job, "tool", "#!/bin/sh\npwd\n", 0755);
  cJSON *step = job_step(job, "./tool", NULL);
  const char *directory = redis_server_directory(job->server);
  cJSON_AddStringToObject(step, "workingDirectory", directory);
  assert_string_equal(output_of(job, step), job_format(job, "%s\n", directory));
}

JOB_TEST_NO_AGENT(a_command_gets_the_umask_of_the_agent) {
  mode_t before = umask(027);
  job_start_agent(job, NULL);
  umask(before);
  assert_string_equal(output_of(job, job_script(job, "umask")), "0027\n");
}

/* The lower priority of a build keeps it from delaying the heartbeat or a cancel. */
JOB_TEST_NO_AGENT(a_command_has_a_higher_nice_value_than_the_agent) {
  job_start_agent(job, NULL);
  assert_string_equal(output_of(job, job_step(job, "nice", NULL)), "5\n");
  job_shut_down(job);
  job_start_agent(job, "--nice", "0", NULL);
  assert_string_equal(output_of(job, job_step(job, "nice", NULL)), "0\n");
}

JOB_TEST(a_command_leads_its_own_group) {
  const cJSON *step = job_script(job, "cut -d' ' -f1,5,6 /proc/$$/stat");
  int pid;
  int group;
  int session;
  assert_int_equal(sscanf(output_of(job, step), "%d %d %d", &pid, &group, &session), 3);
  assert_int_equal(pid, group);
  assert_int_not_equal(group, getpgid(agent_process_pid(job->agent)));
}

JOB_TEST_NO_AGENT(a_command_starts_with_default_signal_handling) {
  /* The agent inherits this state, and must reset it for its commands. */
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigaddset(&blocked, SIGCHLD);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  signal(SIGHUP, SIG_IGN);
  job_start_agent(job, NULL);
  sigprocmask(SIG_SETMASK, &before, NULL);
  signal(SIGHUP, SIG_DFL);
  const char *status = output_of(job, job_step(job, "cat", "/proc/self/status", NULL));
  static const char *const fields[] = {"SigBlk", "SigIgn", "SigCgt"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const char *expected = job_format(job, "\n%s:\t0000000000000000\n", fields[i]);
    if (strstr(status, expected) == NULL)
      job_fail(job, "%s is not empty in\n%s", fields[i], status);
  }
}

JOB_TEST_NO_AGENT(a_command_gets_only_three_descriptors) {
  int inherited = open("/dev/null", O_RDONLY);
  assert_true(inherited > 2);
  job->setup.inherited_fd = inherited;
  job_start_agent(job, NULL);
  close(inherited);
  /* 3 is the directory that ls reads */
  assert_string_equal(output_of(job, job_step(job, "ls", "/proc/self/fd", NULL)), "0\n1\n2\n3\n");
}
