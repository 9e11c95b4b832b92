/* Secret values in events, results, the log, and answers of other frontends. */

#include "tests/support/job.h"
#include "tests/support/stdio_host.h"

#define SECRET "tr0ub4dor&3"

static cJSON *with_secret(cJSON *step, const char *value) {
  cJSON *env = cJSON_AddObjectToObject(step, "env");
  cJSON_AddStringToObject(env, "GIT_TOKEN", value);
  cJSON *names = cJSON_AddArrayToObject(step, "secrets");
  cJSON_AddItemToArray(names, cJSON_CreateString("GIT_TOKEN"));
  return step;
}

static cJSON *secret_script(struct job *job, const char *script) {
  return with_secret(job_script(job, script), SECRET);
}

static void run_quietly(struct job *job) {
  job_expect_result(job, job_run(job, secret_script(job, "true")), 0, NULL, NULL);
}

/* Fails if an event or the log has this text. */
static void expect_nowhere(struct job *job, const char *part) {
  if (strstr(job_raw_events(job), part) != NULL)
    job_fail(job, "%s is in an event", part);
  if (strstr(agent_process_log(job->agent), part) != NULL)
    job_fail(job, "%s is in the log", part);
}

JOB_TEST_NO_AGENT(a_secret_is_masked_in_events_results_and_log) {
  job_start_agent(job, "--verbose", NULL);
  const cJSON *step = secret_script(job, "echo a $GIT_TOKEN b; echo x$GIT_TOKEN >&2; exit 3");
  const cJSON *result = job_run(job, step);
  job_expect_result(job, result, 3, "a *** b\nx***", "a *** b\n");
  assert_string_equal(job_lines(job, step, "stdout"), "a *** b\n");
  assert_string_equal(job_lines(job, step, "stderr"), "x***\n");
  expect_nowhere(job, "tr0ub4");
}

JOB_TEST(a_secret_is_masked_in_its_encoded_forms) {
  static const char script[] =
      "printf %s \"$GIT_TOKEN\" | base64; printf 'user:%s' \"$GIT_TOKEN\" | base64; "
      "echo 'tr0ub4dor%263 tr0ub4dor&amp;3 tr0ub4dor\\u00263 tr0ub4dor\\u0026\\u0033'";
  const cJSON *result = job_run(job, secret_script(job, script));
  assert_null(strstr(job_text(result, "outputContent"), "dHIwdWI0"));
  job_expect_part(job, result, "outputContent", "*** *** *** tr0ub4dor\\u0026\\u0033");
}

/* The secret arrives in several reads. */
JOB_TEST(a_secret_is_masked_across_reads) {
  const cJSON *result = job_run(
      job, secret_script(job, "for i in tr0 ub4 dor '&3'; do printf %s \"$i\"; sleep 0.05; done; "
                              "echo .; printf tr0ub4"));
  job_expect_result(job, result, 0, NULL, "***.\ntr0ub4\n");
}

JOB_TEST(a_partial_match_does_not_delay_output) {
  const cJSON *step = secret_script(job, "echo tr0ub4dor; printf tr0ub4; echo up >&2; sleep 600");
  job_push(job, step);
  job_wait_event(job, step, "stdout", "tr0ub4dor");
  job_wait_event(job, step, "stderr", "up");
  job_push_cancel(job, step);
  job_expect_part(job, job_result_of(job, step), "outputContent", "tr0ub4dor\ntr0ub4");
}

JOB_TEST(a_secret_is_masked_until_the_agent_exits) {
  run_quietly(job);
  const char *path = job_write(job, "dot_env", "TOKEN=" SECRET "\n", 0644);
  const cJSON *result = job_run(job, job_step(job, "cat", path, NULL));
  job_expect_result(job, result, 0, NULL, "TOKEN=***\n");
  result = job_run(
      job, job_own(job, cJSON_Parse(job_json(job,
                                             "{'schemaVersion':1,'stepId':'r','kind':'readFile',"
                                             "'path':'%s'}",
                                             path))));
  job_expect_result(job, result, 0, NULL, "TOKEN=***\n");
}

JOB_TEST(a_secret_may_be_a_variable_of_the_agent) {
  const char *const environment[] = {"DEPLOY_KEY=k3y-of-the-agent", NULL};
  job_shut_down(job);
  job->setup.environment = environment;
  job_start_agent(job, NULL);
  cJSON *step = job_script(job, "echo $DEPLOY_KEY");
  cJSON_AddItemToArray(cJSON_AddArrayToObject(step, "secrets"), cJSON_CreateString("DEPLOY_KEY"));
  job_expect_result(job, job_run(job, step), 0, NULL, "***\n");
}

/* No command gets the variable; its value is only masked. */
JOB_TEST(a_file_step_may_have_secrets) {
  const char *path = job_write(job, "dot_env", "TOKEN=" SECRET "\n", 0644);
  const cJSON *result = job_run(
      job, job_own(job, cJSON_Parse(job_json(job,
                                             "{'schemaVersion':1,'stepId':'r','kind':'readFile',"
                                             "'path':'%s','env':{'GIT_TOKEN':'" SECRET "'},"
                                             "'secrets':['GIT_TOKEN']}",
                                             path))));
  job_expect_result(job, result, 0, NULL, "TOKEN=***\n");
}

JOB_TEST(a_secret_without_its_variable_rejects_the_step) {
  cJSON *step = job_script(job, "echo on");
  cJSON *names = cJSON_AddArrayToObject(step, "secrets");
  cJSON_AddItemToArray(names, cJSON_CreateString("PATH"));
  cJSON_AddItemToArray(names, cJSON_CreateString("NO_SUCH_VARIABLE"));
  const cJSON *result = job_run(job, step);
  job_expect_result(job, result, -1, "secrets[1] names no variable", NULL);
  assert_string_equal(job_text(cJSON_GetObjectItem(result, "end"), "cause"), "refused");
}

JOB_TEST(variables_that_cannot_be_masked_are_named) {
  const cJSON *step = with_secret(job_script(job, "echo $GIT_TOKEN"), "short");
  job_expect_result(job, job_run(job, step), 0, NULL, "short\n");
  assert_non_null(strstr(job_raw_events(job), "\"seq\":1,\"notMasked\":[\"GIT_TOKEN\"]}"));
  agent_process_wait_log(job->agent, "GIT_TOKEN is not masked: no line of it has 6 bytes");
  const cJSON *next = secret_script(job, "true");
  job_expect_result(job, job_run(job, next), 0, NULL, NULL);
  assert_null(cJSON_GetObjectItem(job_events(job, next)->child, "notMasked"));
}

JOB_TEST_NO_AGENT(variables_that_match_a_pattern_are_masked) {
  const char *const environment[] = {"OWN_TOKEN=of-the-agent", "A_KEY=no", NULL};
  job->setup.environment = environment;
  job_start_agent(job, "--mask-env", "*_TOKEN,*_KEY", NULL);
  cJSON *step = job_script(job, "echo $OWN_TOKEN $MY_KEY $OTHER $B_KEY");
  cJSON *env = cJSON_AddObjectToObject(step, "env");
  cJSON_AddStringToObject(env, "MY_KEY", "of-the-step");
  cJSON_AddStringToObject(env, "OTHER", "plain-text");
  cJSON_AddStringToObject(env, "B_KEY", "1");
  job_expect_result(job, job_run(job, step), 0, NULL, "*** *** plain-text 1\n");
  agent_process_wait_log(job->agent, "A_KEY is not masked");
  assert_non_null(strstr(job_raw_events(job), "\"notMasked\":[\"B_KEY\"]"));
}

/* --- messages of the agent -------------------------------------------------------------------- */

JOB_TEST_NO_AGENT(a_shortened_command_does_not_show_a_secret) {
  job_start_agent(job, "--verbose", NULL);
  run_quietly(job);
  for (int before = 60; before < 420; before += 5) {
    char *name = job_format(job, "/%0*d%s/x", before, 0, SECRET);
    const cJSON *result = job_run(job, job_step(job, name, SECRET, name, NULL));
    job_expect_part(job, result, "errorMessage", "***");
    assert_null(strstr(job_text(result, "errorMessage"), "tr0"));
    cJSON *step = job_step(job, "true", NULL);
    cJSON_AddStringToObject(step, "workingDirectory", name);
    assert_null(strstr(job_text(job_run(job, step), "errorMessage"), "tr0"));
  }
  expect_nowhere(job, "0tr0");
}

static void expect_masked_reason(struct job *job, const cJSON *result) {
  job_expect_part(job, result, "errorMessage", "***");
  if (strstr(job_text(result, "errorMessage"), "tr0") != NULL)
    job_fail(job, "the reason shows it: %s", job_text(result, "errorMessage"));
}

/* The secret is in a directory of PATH and in the interpreter line of a script. */
JOB_TEST_NO_AGENT(an_error_message_does_not_show_a_secret_of_a_path) {
  job_start_agent(job, "--verbose", NULL);
  run_quietly(job);
  for (int before = 1; before < 200; before += 7) {
    const char *directory = job_path(job, job_format(job, "%0*d" SECRET, before, 0));
    assert_int_equal(mkdir(directory, 0755), 0);
    FILE *file = fopen(job_format(job, "%s/tool", directory), "w");
    assert_non_null(file);
    (void)fprintf(file, "#!/%0*d%s/x\n", before, 0, SECRET);
    assert_int_equal(fchmod(fileno(file), 0755), 0);
    assert_int_equal(fclose(file), 0);
    cJSON *step = job_step(job, "tool", NULL);
    cJSON_AddStringToObject(cJSON_AddObjectToObject(step, "env"), "PATH", directory);
    expect_masked_reason(job, job_run(job, step));
    step = job_step(job, "./tool", NULL);
    cJSON_AddStringToObject(step, "workingDirectory", directory);
    expect_masked_reason(job, job_run(job, step));
  }
  expect_nowhere(job, "0tr0");
}

JOB_TEST(the_list_of_processes_does_not_show_a_secret) {
  run_quietly(job);
  const cJSON *result = job_run(job, job_script(job, "sh -c 'sleep 600; : " SECRET "' & echo on"));
  const cJSON *holder = cJSON_GetObjectItem(cJSON_GetObjectItem(result, "end"), "heldBy");
  assert_non_null(holder);
  assert_null(strstr(job_text(holder, "command"), "tr0"));
  cJSON *step = job_script(job, "sh -c 'sleep 600; : " SECRET "'; :");
  cJSON_AddNumberToObject(step, "timeoutSeconds", 3);
  result = job_run(job, step);
  char *json = cJSON_PrintUnformatted(result);
  assert_non_null(strstr(json, "\"alive\""));
  assert_null(strstr(json, "tr0"));
  assert_non_null(strstr(json, ": ***"));
  free(json);
}

JOB_TEST(the_log_does_not_show_values_of_a_rejected_payload) {
  job_push_json(job, "{'stepId':'refused','command':'curl','args':['-u','" SECRET
                     "'],'stdin':'" SECRET "','timeoutSeconds':'x'}");
  assert_int_equal(cJSON_GetObjectItem(job_result(job), "exitCode")->valueint, -1);
  agent_process_wait_log(
      job->agent, "step=refused refused: timeoutSeconds: expected a whole number from 1 to "
                  "31536000, got a string; payload of 108 bytes: stepId (9 bytes), command (6 "
                  "bytes), args (20 bytes), stdin (13 bytes), timeoutSeconds (3 bytes)");
  expect_nowhere(job, "tr0");
}

/* The agent meets the invalid field before it has read `secrets`. */
JOB_TEST(the_secrets_of_a_rejected_step_are_masked) {
  job_push_json(job, "{'stepId':'s','command':'true','env':{'T':'" SECRET "','" SECRET
                     "':'1','" SECRET "':'2'},'secrets':['T']}");
  const cJSON *result = job_result(job);
  assert_string_equal(job_text(result, "errorMessage"), "env.***: expected once, got it twice");
  job_push_json(job, "{'stepId':'s','command':'','args':'x','" SECRET "':1,'env':{'T':'" SECRET
                     "'},'secrets':['T']}");
  (void)job_result(job);
  agent_process_wait_log(job->agent, "*** (1 bytes)");
  expect_nowhere(job, "tr0");
  job_expect_result(job, job_run(job, job_script(job, "echo '" SECRET "'")), 0, NULL, "***\n");
}

/* Each step has a different token, and the agent's variable remains secret. */
JOB_TEST_NO_AGENT(the_agent_masks_its_257th_secret) {
  const char *const environment[] = {"OWN_TOKEN=of-the-agent", NULL};
  job->setup.environment = environment;
  job_start_agent(job, "--mask-env", "OWN_TOKEN", NULL);
  for (int i = 0; i < 600; i++) {
    cJSON *step =
        with_secret(job_script(job, "echo $GIT_TOKEN $OWN_TOKEN; printf %s $GIT_TOKEN >&2"),
                    job_format(job, "token-of-step-%d", i));
    job_expect_result(job, job_run(job, step), 0, NULL, "*** ***\n");
  }
  job_expect_result(job, job_run(job, job_script(job, "echo token-of-step-550 token-of-step-1")), 0,
                    NULL, "*** token-of-step-1\n");
  expect_nowhere(job, "token-of-step-59");
  assert_int_equal(agent_process_count_log(job->agent, "is not masked"), 0);
}

static const char *const with_password[] = {"--requirepass", "s3cret-Word", NULL};

static int set_up_password(void **state) {
  struct job *job = job_new(redis_server_start(with_password));
  freeReplyObject(redisCommand(job->redis, "AUTH s3cret-Word"));
  job->url = job_format(job, "redis://:s3cret-Word@127.0.0.1:%d", redis_server_port(job->server));
  *state = job;
  return 0;
}

TEST_WITH(struct job *job, the_password_of_redis_is_always_masked, set_up_password, job_teardown) {
  job_start_agent(job, NULL);
  job_expect_result(job, job_run(job, job_script(job, "echo s3cret-Word; echo s3cret-Wor")), 0,
                    NULL, "***\ns3cret-Wor\n");
}

static double processor_seconds(const struct job *job) {
  clockid_t clock;
  struct timespec used;
  assert_int_equal(clock_getcpuclockid(agent_process_pid(job->agent), &clock), 0);
  assert_int_equal(clock_gettime(clock, &used), 0);
  return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* 256 values of many bytes each: the processor time is bounded. */
JOB_TEST(many_large_secrets_take_little_time) {
  enum { MOST_SECONDS = 10 };
  cJSON *step = job_script(job, "true");
  cJSON *env = cJSON_AddObjectToObject(step, "env");
  cJSON *names = cJSON_AddArrayToObject(step, "secrets");
  char *value = calloc(1, 7001);
  for (int i = 0; i < 256; i++) {
    const char *name = job_format(job, "V%d", i);
    memset(value, '"', 7000);
    memcpy(value + i, "secret", 6);
    cJSON_AddStringToObject(env, name, value);
    cJSON_AddItemToArray(names, cJSON_CreateString(name));
  }
  free(value);
  job_push(job, step);
  (void)job_result(job);
  agent_process_wait_log(job->agent, "V255 is not masked: too many values");
  assert_true(processor_seconds(job) < MOST_SECONDS);
}

/* The processor time of a step with this many variables, whose names begin with `first`, and with
   the names of as many secrets. */
static double seconds_with_variables(struct job *job, char first, int variables, int secrets) {
  cJSON *step = job_script(job, "true");
  cJSON *env = cJSON_AddObjectToObject(step, "env");
  for (int i = 0; i < variables; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "%c%d", first, i);
    cJSON_AddStringToObject(env, name, "1");
  }
  cJSON *names = cJSON_AddArrayToObject(step, "secrets");
  for (int i = 0; i < secrets; i++)
    cJSON_AddItemToArray(names, cJSON_CreateString("MISSING"));
  const double before = processor_seconds(job);
  (void)job_run(job, step);
  return processor_seconds(job) - before;
}

JOB_TEST_NO_AGENT(many_variables_and_secrets_take_little_time) {
  enum { COUNT = 50000, MOST_TIMES = 10, LOGGED = 256 };
  job_start_agent(job, "--mask-env", "V*", NULL);
  const double simple = seconds_with_variables(job, 'U', COUNT, 0);
  const double matching = seconds_with_variables(job, 'V', COUNT, 0);
  const double refused = seconds_with_variables(job, 'U', COUNT, COUNT);
  if (matching > MOST_TIMES * simple || refused > MOST_TIMES * simple)
    fail_msg("%.3f s and %.3f s instead of %.3f s", matching, refused, simple);
  agent_process_wait_log(job->agent, "49744 more variables are not masked");
  assert_int_equal(agent_process_count_log(job->agent, " is not masked"), LOGGED);
}

/* --- other frontends -------------------------------------------------------------------------- */

static struct stdio_host *start_host(const char *frontend) {
  static const char *const variables[] = {"OWN_TOKEN=of-the-agent", NULL};
  const char *const arguments[] = {frontend, "--mask-env", "X, *_TOKEN", NULL};
  return stdio_host_start(
      &(struct stdio_host_setup){.arguments = arguments, .variables = variables});
}

/* The next line must have the mask in place of the secret. */
static void expect_masked(struct stdio_host *host) {
  const char *line = stdio_host_line(host);
  assert_non_null(line);
  if (strstr(line, "of-the-agent") != NULL || strstr(line, "***") == NULL)
    fail_msg("%s", line);
}

static void end_host(struct stdio_host *host) {
  stdio_host_close_input(host);
  stdio_host_expect_exit(host, 0);
  assert_null(strstr(stdio_host_log(host), "of-the-agent"));
  stdio_host_free(host);
}

TEST(raw_output_is_masked_without_its_nul_bytes) {
  struct stdio_host *host = start_host("--stdio");
  stdio_host_send(host, "{'id':1,'method':'execute','params':{'command':'printf "
                        "\\\"of-the\\\\0-agent. $OWN_TOKEN of-the\\\"'}}\n");
  const char *line = stdio_host_line(host);
  assert_non_null(line);
  assert_non_null(strstr(line, "***. *** of-the"));
  stdio_host_send(host, "{'id':2,'method':'of-the-agent'}\n");
  expect_masked(host);
  end_host(host);
}

TEST(a_secret_that_an_answer_repeats_is_masked) {
  static const char *const calls[] = {
      "'execute_command','arguments':{'command':'/of-the-agent/x','args':['y']}",
      "'execute_command','arguments':{'command':'true','workdir':'/of-the-agent'}",
      "'write_file','arguments':{'path':'/tmp/of-the-agent','content':'y'}",
      "'write_file','arguments':{'path':'/tmp/','of-the-agent':'y'}",
      "'read_file','arguments':{'path':'/of-the-agent'}",
      "'of-the-agent'",
  };
  struct stdio_host *host = start_host("--mcp");
  stdio_host_send(host, "{'jsonrpc':'2.0','id':0,'method':'initialize','params':{"
                        "'protocolVersion':'2025-06-18','capabilities':{},"
                        "'clientInfo':{'name':'t','version':'1'}}}\n");
  assert_non_null(stdio_host_line(host));
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    stdio_host_send(host, formatted("{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{"
                                    "'name':%s}}\n",
                                    calls[i]));
    expect_masked(host);
  }
  end_host(host);
  assert_int_equal(unlink("/tmp/of-the-agent"), 0);
}
