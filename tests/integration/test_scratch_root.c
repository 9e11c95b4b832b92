/* A root with only the agent and one static command: no libraries, /proc, /etc or shell. Only the
   shipped program has to run there. */

#include <sys/sendfile.h>

#include "tests/support/command.h"
#include "tests/support/job.h"

static void copy_program(const char *from, const char *to) {
  struct stat file;
  int in = open(from, O_RDONLY | O_CLOEXEC);
  assert_true(in >= 0);
  assert_int_equal(fstat(in, &file), 0);
  int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
  assert_true(out >= 0);
  for (off_t left = file.st_size; left > 0;) {
    ssize_t n = sendfile(out, in, NULL, (size_t)left);
    assert_true(n > 0);
    left -= n;
  }
  close(in);
  close(out);
}

static int setup(void **state) {
  job_setup_server(state);
  struct job *job = *state;
  const char *root = job_path(job, "root");
  assert_int_equal(mkdir(root, 0755), 0);
  command_build("scratch", "-static", job_path(job, "root/command"));
  copy_program(agent_process_program(), job_path(job, "root/agent"));
  return 0;
}

static void start_in_root(struct job *job, const char *url) {
  job->url = url;
  job->setup.root = job_path(job, "root");
  job_start_agent(job, NULL);
}

#define ROOT_TEST(NAME)                                                                            \
  TEST_WITH_IF(agent_process_is_shipped(), struct job *job, NAME, setup, job_teardown)

ROOT_TEST(a_command_runs_in_an_empty_root) {
  start_in_root(job, job->url);
  const cJSON *step = job_step(job, "/command", "hello", NULL);
  job_expect_result(job, job_run(job, step), 0, NULL, "in /\nhello\n");
  assert_string_equal(job_lines(job, step, "completed"), "exit=0 timedOut=False\n");

  cJSON *on_path = job_step(job, "command", NULL);
  cJSON_AddStringToObject(cJSON_AddObjectToObject(on_path, "env"), "PATH", "/");
  job_expect_result(job, job_run(job, on_path), 0, NULL, "in /\n");

  const cJSON *result = job_run(job, job_script(job, "echo no shell"));
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, -1);
  job_expect_part(job, result, "errorMessage", "sh");
  job_shut_down(job);
}

ROOT_TEST(localhost_resolves_without_a_hosts_file) {
  start_in_root(job, job_format(job, "redis://%slocalhost:%d", redis_server_login(),
                                redis_server_port(job->server)));
  job_expect_result(job, job_run(job, job_step(job, "/command", NULL)), 0, NULL, "in /\n");
  job_shut_down(job);
}

ROOT_TEST(the_agent_connects_to_a_unix_socket_in_the_root) {
  assert_int_equal(link(redis_server_socket(job->server), job_path(job, "root/redis.sock")), 0);
  start_in_root(job, "unix:///redis.sock");
  job_expect_result(job, job_run(job, job_step(job, "/command", NULL)), 0, NULL, "in /\n");
  job_shut_down(job);
}

ROOT_TEST(commands_run_in_work_by_default) {
  assert_int_equal(mkdir(job_path(job, "root/work"), 0755), 0);
  start_in_root(job, job->url);
  job_expect_result(job, job_run(job, job_step(job, "/command", NULL)), 0, NULL, "in /work\n");
  cJSON *step = job_step(job, "/command", NULL);
  cJSON_AddStringToObject(step, "workingDirectory", "/");
  job_expect_result(job, job_run(job, step), 0, NULL, "in /\n");
  cJSON_ReplaceItemInObject(step, "workingDirectory", cJSON_CreateNull());
  job_expect_result(job, job_run(job, step), 0, NULL, "in /work\n");
  job_shut_down(job);
}

/* Without /proc the processes of the step are ended by their group. */
ROOT_TEST(a_deadline_ends_a_command_in_an_empty_root) {
  start_in_root(job, job->url);
  cJSON *step =
      job_step(job, "/agent", "--redis-url", "redis://127.0.0.1:1", "--job-id", "x", NULL);
  cJSON_AddNumberToObject(step, "timeoutSeconds", 1);
  const cJSON *result = job_run(job, step);
  job_expect_part(job, result, "errorMessage", "timed out after 1s");
  job_shut_down(job);
}

/* Proves that the root is empty: a dynamic program does not find its interpreter. */
TEST_WITH_IF(!agent_process_is_shipped(), struct job *job,
             a_dynamic_program_does_not_run_in_an_empty_root, setup, job_teardown) {
  start_in_root(job, job->url);
  assert_int_equal(agent_process_wait(job->agent, WAIT_BOUND_MS), AGENT_PROCESS_NO_START);
}
