/* Completion in an interactive bash: names from Redis and of files are offered but never executed.
   */

#include "tests/support/sandbox_client.h"
#include "tests/test.h"

/* Starts bash in its own directory, with the client as `sandbox` on its PATH. The client may take
   more than the 2 s for which completion waits. */
static struct sandbox_terminal *start_bash(struct job *job) {
  sandbox_expect(job,
                 job_format(job, "mkdir -p '%s' && ln -sf \"$(realpath $S)\" '%s'",
                            job_path(job, "bin"), job_path(job, "bin/sandbox")),
                 0, "", "");
  const char *rc = job_write(job, "bashrc",
                             job_format(job,
                                        "PATH=%s:$PATH; . \"$PWD/completion/sandbox.bash\"; cd %s; "
                                        "timeout() { shift; \"$@\"; }; PS1='ready '\n",
                                        job_path(job, "bin"), job_path(job, "bin")),
                             0644);
  struct sandbox_terminal *terminal =
      sandbox_terminal_start(job, job_format(job, "exec bash --noprofile --rcfile '%s' -i", rc));
  sandbox_terminal_wait(terminal, "ready ");
  return terminal;
}

static void expect_not_executed(struct job *job) {
  assert_int_equal(access(job_path(job, "executed"), F_OK), -1);
}

JOB_TEST_NO_AGENT(a_job_whose_name_is_a_command_is_not_offered_and_not_executed) {
  const char *beat = "{\"Pid\":1,\"Ts\":1}";
  job_do(job, "SET sandbox:%s:heartbeat %s", job->id, beat);
  job_do(job, "SET %s %s", job_format(job, "sandbox:$(>%s):heartbeat", job_path(job, "executed")),
         beat);
  job_do(job, "SET %s %s", job_format(job, "sandbox:`>%s`:heartbeat", job_path(job, "executed")),
         beat);
  job_do(job, "SET %s %s", "sandbox:--now:heartbeat", beat);
  job_do(job, "SET %s %s", "sandbox:plain:heartbeat", beat);
  struct sandbox_terminal *terminal = start_bash(job);
  sandbox_terminal_send(terminal, "sandbox -j pl\t");
  sandbox_terminal_wait(terminal, "-j plain ");
  sandbox_terminal_send(terminal, "\x15sandbox -j \t\t");
  sandbox_terminal_wait(terminal, job->id);
  assert_null(strstr(terminal->text, "executed"));
  assert_null(strstr(terminal->text, "--now"));
  expect_not_executed(job);
  sandbox_terminal_free(terminal);
}

JOB_TEST_NO_AGENT(a_step_whose_id_is_a_command_is_not_offered_and_not_executed) {
  job_push_json(job,
                job_format(job, "{'stepId':'$(>%s)','command':'true'}", job_path(job, "executed")));
  job_push_json(job, "{'stepId':'--running','command':'true'}");
  job_push_json(job, "{'stepId':'7f3a-of-a-step','command':'\\\"id\\\":\\\"of-a-command\\\"'}");
  struct sandbox_terminal *terminal = start_bash(job);
  sandbox_terminal_send(terminal, "sandbox follow 7\t");
  sandbox_terminal_wait(terminal, "follow 7f3a-of-a-step ");
  sandbox_terminal_send(terminal, "\x15sandbox follow \t\t");
  sandbox_terminal_wait(terminal, "--timestamps");
  assert_null(strstr(terminal->text, "executed"));
  assert_null(strstr(terminal->text, "--running"));
  assert_null(strstr(terminal->text, "of-a-command"));
  expect_not_executed(job);
  sandbox_terminal_free(terminal);
}

JOB_TEST_NO_AGENT(a_file_whose_name_is_a_command_is_quoted) {
  struct sandbox_terminal *terminal = start_bash(job);
  (void)job_write(job, "bin/f $(>executed)", "", 0644);
  sandbox_terminal_send(terminal, "sandbox cp f\t");
  sandbox_terminal_wait(terminal, "cp f\\ \\$\\(\\>executed\\) ");
  sandbox_terminal_free(terminal);
}

JOB_TEST_NO_AGENT(commands_and_options_are_offered) {
  struct sandbox_terminal *terminal = start_bash(job);
  sandbox_terminal_send(terminal, "sandbox shutd\t");
  sandbox_terminal_wait(terminal, "sandbox shutdown ");
  sandbox_terminal_send(terminal, "--n\t");
  sandbox_terminal_wait(terminal, "sandbox shutdown --now ");
  sandbox_terminal_free(terminal);
}
