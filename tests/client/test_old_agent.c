/* The client with an agent of version 0.1.0: each command works, or says which feature it needs. */
#include "tests/support/old_agent.h"
#include "tests/support/sandbox_client.h"
#include "tests/test.h"

struct old_job {
  struct job *job;
  struct old_agent *agent;
};

static int set_up(void **state) {
  struct old_job *self = calloc(1, sizeof *self);
  (void)job_setup_server((void **)&self->job);
  self->agent = old_agent_start(self->job);
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct old_job *self = *state;
  old_agent_free(self->agent);
  job_free(self->job);
  free(self);
  return 0;
}

#define OLD_TEST(NAME) TEST_WITH(struct old_job *old, NAME, set_up, tear_down)

OLD_TEST(an_old_agent_runs_a_command) {
  struct job *job = old->job;
  sandbox_expect(job, "$S run --text -- sh -c 'echo a; echo b >&2; exit 3'", 3, "a\n", "b\n");
  sandbox_expect(job, "$S -q run -- echo a", 0, "a\n", "");
  sandbox_expect(job, "$S run -- echo a", 0, "a\n",
                 "this agent cannot send raw bytes: bytes that are not UTF-8 are replaced; use "
                 "--text to accept that\n");
  sandbox_expect(job, "$S --json run -- true | tail -n 1 | grep -c '^{\"result\":{'", 0, "1\n", "");
  sandbox_expect(job, "$S follow $($S run --detach -c 'echo a; exit 4')", 4, "a\n", "");
  job_wait_length(job, "results", 1);
}

OLD_TEST(a_field_that_the_old_agent_would_ignore_is_an_error) {
  struct job *job = old->job;
  sandbox_expect(job, "echo a | $S run -i -- cat", 125, "",
                 "sandbox: -i needs an agent with stdin\n");
  sandbox_expect(job, "$S edit a b c", 125, "", "sandbox: needs an agent with editFile\n");
  sandbox_expect(job, "$S cp /etc/passwd :a", 125, "", "sandbox: needs an agent with readBytes\n");
  sandbox_expect(job, "printf '\\377' | $S write a", 125, "",
                 "sandbox: needs an agent with writeBytes\n");
  job_wait_length(job, "in", 0);
  job_wait_length(job, "results", 0);
}

OLD_TEST(an_old_agent_reads_writes_and_searches_files) {
  struct job *job = old->job;
  sandbox_expect(job, "$S read /a", 0, OLD_AGENT_FILE, "");
  sandbox_expect(job, "$S read /a -l 1", 0, OLD_AGENT_FILE, "");
  sandbox_expect(job, "echo a | $S write /a", 0, "", "");
  sandbox_expect(job, "$S ls /d", 0, "file  3  a\n", "");
  sandbox_expect(job, "$S tree /d", 0, "d/\n└── a\n", "");
  sandbox_expect(job, "$S grep two", 0, "a:2:two\n", "");
  job_wait_length(job, "results", 0);
}

OLD_TEST(ps_jobs_top_and_doctor_work_with_an_old_agent) {
  struct job *job = old->job;
  sandbox_expect(job, "$S ps | grep -c 'agent 0.1.0 or older pid '", 0, "1\n", "");
  sandbox_expect(job, "env -u JOB_ID $S jobs | grep -c '0.1.0 or older'", 0, "1\n", "");
  sandbox_expect(job, "env -u JOB_ID $S run --text -- echo a", 0, "a\n", "");
  sandbox_expect(job, "$S top | wc -l; $S top --json | wc -l", 0, "2\n1\n", "");
  sandbox_expect(
      job,
      "$S doctor | grep -c '^! the agent lacks features: .*stdin.*an image with a newer agent'", 0,
      "1\n", "");
  sandbox_expect(job, "$S doctor | grep '^✗'", 1, "", "");
}

OLD_TEST(cancel_and_shutdown_work_with_an_old_agent) {
  struct job *job = old->job;
  struct sandbox_terminal *terminal = sandbox_terminal_start(
      job, job_format(job, "exec $S run -c 'echo up; %s'", job_sleep(job, 600)));
  sandbox_terminal_wait(terminal, "up\r\n");
  sandbox_expect(job, "$S cancel --running", 0, "", NULL);
  sandbox_terminal_wait(terminal, " cancelled");
  sandbox_terminal_expect_exit(terminal, 130);
  sandbox_expect(job, "$S shutdown", 0, "", NULL);
  old_agent_expect_end(old->agent);
  sandbox_expect(job, "$S run -- true", 125, "", NULL);
}
