/* stderr: one line per fact, without secrets. */

#include <regex.h>

#include "tests/support/job.h"

static bool matches(const char *text, const char *pattern) {
  regex_t form;
  assert_int_equal(regcomp(&form, pattern, REG_EXTENDED | REG_NOSUB | REG_NEWLINE), 0);
  bool found = regexec(&form, text, 0, NULL, 0) == 0;
  regfree(&form);
  return found;
}

static void expect_line(struct job *job, const char *pattern) {
  if (!matches(agent_process_log(job->agent), pattern))
    job_fail(job, "no line of the log matches %s", pattern);
}

/* Other jobs have IDs with characters that are special in a pattern. */
static void use_plain_job_id(struct job *job) {
  snprintf(job->id, sizeof job->id, "pipe-42");
}

JOB_TEST_NO_AGENT(every_line_of_the_log_has_the_same_form) {
  use_plain_job_id(job);
  job_start_agent(job, "--verbose", NULL);
  job_run(job, job_step(job, "echo", "hello", NULL));
  job_run(job, job_script(job, "echo why >&2; exit 3"));
  job_push_text(job, "{", 1);
  job_result(job);
  job_shut_down(job);
  char *log = strdup(agent_process_log(job->agent));
  assert_non_null(log);
  int lines = 0;
  char *rest = log;
  for (char *line; (line = strsep(&rest, "\n")) != NULL && rest != NULL; lines++) {
    if (!matches(line, "^[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3} (DEBUG|INFO |WARN |ERROR) "
                       "job=pipe-42 ."))
      job_fail(job, "not a line of the log: %s", line);
  }
  free(log);
  assert_true(lines > 5);
}

JOB_TEST_NO_AGENT(the_log_has_one_line_about_each_step) {
  use_plain_job_id(job);
  job_start_agent(job, NULL);
  cJSON *step = job_step(job, "echo", "hello", "world", NULL);
  cJSON_ReplaceItemInObject(step, "stepId",
                            cJSON_CreateString("1234abcd-1111-1111-1111-111111111111"));
  job_run(job, step);
  job_shut_down(job);
  expect_line(job, " INFO  job=pipe-42 step=1234abcd exit=0 in [0-9]+ms `echo hello world`$");
  assert_int_equal(agent_process_count_log(job->agent, "step=1234abcd"), 1);
}

JOB_TEST(the_log_quotes_words_as_a_shell_reads_them) {
  job_run(job, job_step(job, "printf", "", "a b", "it's", "$HOME", "*.c", "x=y,1/2@", NULL));
  job_shut_down(job);
  expect_line(job, "`printf '' 'a b' 'it'.''s' '[$]HOME' '[*][.]c' x=y,1/2@`$");
}

JOB_TEST_NO_AGENT(a_failed_step_is_logged_as_a_warning) {
  use_plain_job_id(job);
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "false", NULL));
  job_run(job, job_step(job, "no-such-command-here", NULL));
  cJSON *step = job_step(job, "sleep", "60", NULL);
  cJSON_AddNumberToObject(step, "timeoutSeconds", 1);
  job_run(job, step);
  job_shut_down(job);
  expect_line(job, " WARN  job=pipe-42 step=[0-9a-f]{8} exit=1 in [0-9]+m?s `false`");
  expect_line(job, " WARN  job=pipe-42 step=[0-9a-f]{8} .*no-such-command-here");
  expect_line(job, " WARN  job=pipe-42 step=[0-9a-f]{8} .*`sleep 60`.*timed out");
}

JOB_TEST_NO_AGENT(only_a_verbose_log_shows_output) {
  const char *script = "printf 'se%s\\n' cret-output; printf 'se%s\\n' cret-error >&2";
  job_start_agent(job, NULL);
  job_run(job, job_script(job, script));
  job_shut_down(job);
  assert_null(strstr(agent_process_log(job->agent), "secret"));

  job_start_agent(job, "--verbose", NULL);
  job_run(job, job_script(job, script));
  job_shut_down(job);
  assert_non_null(strstr(agent_process_log(job->agent), "secret-output"));
  assert_non_null(strstr(agent_process_log(job->agent), "secret-error"));
}

JOB_TEST_NO_AGENT(the_log_never_shows_values_of_env) {
  job_start_agent(job, "--verbose", NULL);
  cJSON *step = job_script(job, "test -n \"$TOKEN\"");
  cJSON *env = cJSON_AddObjectToObject(step, "env");
  cJSON_AddStringToObject(env, "TOKEN", "t0p-s3cret");
  job_expect_result(job, job_run(job, step), 0, NULL, NULL);
  /* The value does not appear if the step fails, cannot start, or is rejected. */
  cJSON_ReplaceItemInObject(step, "command", cJSON_CreateString("false"));
  job_run(job, step);
  cJSON_ReplaceItemInObject(step, "command", cJSON_CreateString("no-such-command-here"));
  job_run(job, step);
  cJSON_ReplaceItemInObject(step, "command", cJSON_CreateString(""));
  job_run(job, step);
  cJSON_AddStringToObject(env, "A=t0p-s3cret", "x");
  job_run(job, step);
  job_shut_down(job);
  assert_null(strstr(agent_process_log(job->agent), "t0p-s3cret"));
}

/* The text of a step can neither forge a line of the log nor control a terminal. */
JOB_TEST_NO_AGENT(the_log_makes_control_characters_visible) {
  job_start_agent(job, "--verbose", NULL);
  job_run(job, job_script(job, "true\n# 00:00:00.000 INFO  forged \x1b[31m\x07"));
  job_run(job, job_step(job, "printf", "\\033[31mred\\007\\n", NULL));
  job_shut_down(job);
  const char *log = agent_process_log(job->agent);
  assert_null(strchr(log, '\x1b'));
  assert_null(strchr(log, '\x07'));
  assert_null(strstr(log, "\n# 00:00"));
}

JOB_TEST(the_log_shortens_a_long_command) {
  job_run(job, job_step(job, "true", job_format(job, "%0100000d", 0), NULL));
  job_shut_down(job);
  assert_true(strlen(agent_process_log(job->agent)) < 4096);
}

/* If a step is part of a trace, its lines and the environment of its command have the trace
   context. */
JOB_TEST_NO_AGENT(a_log_in_json_has_the_trace_of_the_step) {
  static const char parent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  job_start_agent(job, "--log-format", "json", NULL);
  cJSON *step = job_script(job, "echo $TRACEPARENT; exit 3");
  cJSON_AddStringToObject(cJSON_AddObjectToObject(step, "env"), "TRACEPARENT", parent);
  const cJSON *result = job_run(job, step);
  job_expect_part(job, result, "outputContent", parent);
  job_shut_down(job);
  bool found = false;
  char *saved = NULL, *log = job_format(job, "%s", agent_process_log(job->agent));
  for (char *line = strtok_r(log, "\n", &saved); line != NULL;
       line = strtok_r(NULL, "\n", &saved)) {
    cJSON *object = job_own(job, cJSON_Parse(line));
    assert_non_null(object);
    assert_string_equal(job_text(object, "job"), job->id);
    if (strncmp(job_text(object, "message"), "exit=3 in ", 10) != 0)
      continue;
    found = true;
    assert_string_equal(job_text(object, "level"), "warn");
    assert_string_equal(job_text(object, "step"), job_text(step, "stepId"));
    assert_string_equal(job_text(object, "traceparent"), parent);
  }
  assert_true(found);
}
