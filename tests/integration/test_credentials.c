/* Only the agent knows the Redis password: no step can find it, and no log shows it. For the key of
   HTTP, see test_http_key.c. */

#include "tests/support/job.h"

#define PASSWORD "s3cret-Word"
#define KEY "0123456789-the-key-of-http"

static const char *const with_password[] = {"--requirepass", PASSWORD, NULL};

static int setup(void **state) {
  struct job *job = job_new(redis_server_start(with_password));
  freeReplyObject(redisCommand(job->redis, "AUTH %s", PASSWORD));
  *state = job;
  return 0;
}

static const char *url_with_password(struct job *job) {
  return job_format(job, "redis://:%s@127.0.0.1:%d", PASSWORD, redis_server_port(job->server));
}

static void start_with_flag(struct job *job, const char *url, uid_t uid) {
  job->url = url;
  job->setup.uid = uid;
  job_start_agent(job, "--verbose", NULL);
}

static void start_with_variable(struct job *job, const char *url, uid_t uid) {
  const char *const arguments[] = {"--verbose", "--job-id", job->id, NULL};
  const char *const environment[] = {job_format(job, "REDIS_URL=%s", url), "LAST=kept", NULL};
  job->agent = agent_process_start(
      &(struct agent_setup){.arguments = arguments, .environment = environment, .uid = uid});
}

/* Fails unless the file of /proc has `expected` and no part of the password. */
static void expect_clean(struct job *job, const char *file, const char *expected) {
  size_t length;
  char *text = proc_read(agent_process_pid(job->agent), file, &length);
  if (text == NULL)
    job_fail(job, "%s can not be read", file);
  if (memmem(text, length, "s3cret", 6) != NULL || memmem(text, length, "Word", 4) != NULL)
    job_fail(job, "%s shows the password", file);
  if (memmem(text, length, expected, strlen(expected)) == NULL)
    job_fail(job, "%s does not show %s", file, expected);
  free(text);
}

static void expect_hidden(struct job *job) {
  job_expect_to_go_on(job);
  expect_clean(job, "cmdline", "--job-id");
  expect_clean(job, "environ", "PATH=");
  assert_null(strstr(agent_process_log(job->agent), PASSWORD));
}

TEST_WITH(struct job *job, the_agent_wipes_the_password_of_a_flag, setup, job_teardown) {
  start_with_flag(job, url_with_password(job), 0);
  expect_hidden(job);
  job_shut_down(job);
  job->url = job_format(job, "127.0.0.1:%d,password=%s,defaultDatabase=0",
                        redis_server_port(job->server), PASSWORD);
  start_with_flag(job, job->url, 0);
  expect_hidden(job);
}

TEST_WITH(struct job *job, the_agent_wipes_the_password_of_a_flag_with_an_equals_sign, setup,
          job_teardown) {
  const char *const arguments[] = {job_format(job, "--redis-url=%s", url_with_password(job)),
                                   "--job-id", job->id, NULL};
  job->agent = agent_process_start(&(struct agent_setup){.arguments = arguments});
  expect_hidden(job);
}

TEST_WITH(struct job *job, the_agent_wipes_the_password_of_a_variable, setup, job_teardown) {
  start_with_variable(job, url_with_password(job), 0);
  expect_hidden(job);
}

TEST_WITH(struct job *job, the_agent_wipes_the_password_of_an_overridden_variable, setup,
          job_teardown) {
  const char *const environment[] = {"REDIS_URL=redis://:s3cret@elsewhere", NULL};
  job->url = url_with_password(job);
  job->setup.environment = environment;
  job_start_agent(job, NULL);
  expect_hidden(job);
}

/* The step has the same user, but the agent is not dumpable. */
TEST_WITH(struct job *job, a_step_cannot_read_the_memory_of_the_agent, setup, job_teardown) {
  uid_t nobody = 65534;
  start_with_flag(job, url_with_password(job), geteuid() == 0 ? nobody : 0);
  pid_t agent = agent_process_pid(job->agent);
  static const char *const files[] = {"environ", "mem", "maps"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const cJSON *step =
        job_step(job, "head", "-c1", job_format(job, "/proc/%d/%s", (int)agent, files[i]), NULL);
    const cJSON *result = job_run(job, step);
    assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 1);
    job_expect_part(job, result, "errorMessage", "Permission denied");
  }
  /* A command is dumpable: debuggers may read it. */
  const cJSON *own = job_script(job, "head -c1 /proc/$$/environ >/dev/null");
  job_expect_result(job, job_run(job, own), 0, NULL, NULL);
}

/* Counts the text in the writable memory of the process. Needs root. */
static int count_in_memory(pid_t pid, const char *text) {
  char path[64];
  int found = 0;
  unsigned long from, to;
  char *maps = proc_read(pid, "maps", NULL);
  assert_non_null(maps);
  snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
  int memory = open(path, O_RDONLY | O_CLOEXEC);
  assert_true(memory >= 0);
  for (char *line = strtok(maps, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    if (sscanf(line, "%lx-%lx rw-p", &from, &to) != 2 || strstr(line, " rw-p ") == NULL)
      continue;
    char *bytes = malloc(to - from);
    ssize_t length = pread(memory, bytes, to - from, (off_t)from);
    for (char *at = bytes;
         length > 0 && (at = memmem(at, (size_t)(bytes + length - at), text, strlen(text))); at++)
      found++;
    free(bytes);
  }
  close(memory);
  free(maps);
  return found;
}

/* Files are read in the supervisor, which began as a copy of the agent. A sanitizer keeps freed
   memory. */
TEST_WITH_IF(agent_process_is_shipped() && geteuid() == 0, struct job *job,
             a_supervisor_that_reads_files_does_not_have_the_password, setup, job_teardown) {
  static const char *const environment[] = {"SANDBOX_HTTP_KEY=" KEY, NULL};
  job->setup.environment = environment;
  start_with_flag(job, url_with_password(job), 65534);
  const pid_t agent = agent_process_pid(job->agent);
  cJSON *step = cJSON_Parse(job_json(job, "{'stepId':'1','kind':'readFile','path':'/dev/null'}"));
  (void)job_run(job, job_own(job, step));
  assert_true(count_in_memory(agent, PASSWORD) > 0);
  assert_true(count_in_memory(agent, KEY) > 0);
  int forgotten = 0; /* only by one supervisor: another one may be waiting already */
  for (int i = 0; proc_child_of(agent, i) != 0; i++)
    forgotten += count_in_memory(proc_child_of(agent, i), PASSWORD) == 0 &&
                 count_in_memory(proc_child_of(agent, i), KEY) == 0;
  assert_int_equal(forgotten, 1);
}

TEST_WITH(struct job *job, dumpable_lets_a_debugger_read_the_agent, setup, job_teardown) {
  uid_t user = geteuid() == 0 ? 65534 : 0;
  job->url = url_with_password(job);
  job->setup.uid = user;
  job_start_agent(job, "--dumpable", NULL);
  pid_t agent = agent_process_pid(job->agent);
  const cJSON *step =
      job_step(job, "grep", "-c", "agent", job_format(job, "/proc/%d/maps", (int)agent), NULL);
  const cJSON *result = job_run(job, step);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
}
