/* Only the agent knows the key of HTTP: in no mode can a command find it, and no log shows it. A
   command in a container may be started by a second agent, whose mode is not over HTTP, and which
   inherits the variable. */

#include "tests/support/http_agent.h"
#include "tests/support/job.h"
#include "tests/support/sidecar.h"
#include "tests/support/stdio_host.h"

/* Two halves, so that a part of it is found, too. */
#define HALF "7e12d04bc99a"
#define KEY HALF "-" HALF

/* Prints the key, which must be masked, and the variables that the command has. Then it makes the
   agent log its state. The parent of the command is a supervisor, the agent's child. */
#define SCRIPT "echo key=" KEY "; env; kill -USR1 $(cut -d ` ` -f 4 /proc/$PPID/stat)"

static const char *const environment[] = {"SANDBOX_HTTP_KEY=" KEY, "OF_THE_POD=kept", NULL};

/* `text` has what the script prints. */
static void expect_hidden(const char *mode, const char *text, const char *log) {
  if (strstr(text, "key=***") == NULL || strstr(text, "OF_THE_POD=kept") == NULL)
    fail_msg("%s: the output is incomplete: %s", mode, text);
  if (strstr(text, "SANDBOX_HTTP_KEY") != NULL)
    fail_msg("%s: the command has the variable: %s", mode, text);
  if (strstr(text, HALF) != NULL || strstr(log, HALF) != NULL)
    fail_msg("%s: the key is in the output or the log:\n%s\n%s", mode, text, log);
}

static void expect_no_key_in(const char *mode, pid_t pid, const char *variable) {
  size_t length;
  char *text = proc_read(pid, "environ", &length);
  assert_non_null(text);
  if (memmem(text, length, HALF, strlen(HALF)) != NULL ||
      memmem(text, length, variable, strlen(variable)) == NULL)
    fail_msg("%s: the environment of process %d shows the key, or has no %s", mode, (int)pid,
             variable);
  free(text);
}

/* The kernel shows the variable of the agent, but not its value; and the same of its children. */
static void expect_erased(const char *mode, pid_t agent) {
  expect_no_key_in(mode, agent, "SANDBOX_HTTP_KEY=***");
  assert_true(proc_child_of(agent, 0) != 0);
  for (int i = 0; proc_child_of(agent, i) != 0; i++)
    expect_no_key_in(mode, proc_child_of(agent, i), "");
}

JOB_TEST_NO_AGENT(a_step_of_redis_does_not_see_the_key) {
  job->setup.environment = environment;
  job_start_agent(job, "--verbose", NULL);
  const cJSON *result = job_run(job, job_script(job, quoted(SCRIPT)));
  agent_process_wait_log(job->agent, "frontend");
  expect_erased("redis", agent_process_pid(job->agent));
  expect_hidden("redis", job_text(result, "outputContent"), agent_process_log(job->agent));
}

/* Returns the first line of the output that has the text. */
static const char *line_with(struct stdio_host *host, const char *text) {
  const char *line;
  while ((line = stdio_host_line(host)) != NULL && strstr(line, text) == NULL)
    ;
  if (line == NULL)
    fail_msg("no line has %s; log: %s", text, stdio_host_log(host));
  return line;
}

static struct stdio_host *start(const char *flag) {
  const char *arguments[] = {flag, "--verbose", NULL};
  return stdio_host_start(
      &(struct stdio_host_setup){.arguments = arguments, .variables = environment});
}

TEST(a_command_of_once_does_not_see_the_key) {
  struct stdio_host *host = start("--once");
  stdio_host_send(host, "{'stepId':'1','command':'sh','args':['-c','" SCRIPT "']}");
  stdio_host_close_input(host);
  const char *result = line_with(host, "outputContent");
  expect_hidden("once", result, "");
  assert_int_equal(stdio_host_wait(host), 0);
  expect_hidden("once", "key=*** OF_THE_POD=kept", stdio_host_log(host));
  assert_non_null(strstr(stdio_host_log(host), "frontend"));
  stdio_host_free(host);
}

TEST(a_command_of_stdio_does_not_see_the_key) {
  struct stdio_host *host = start("--stdio");
  stdio_host_send(host, "{'id':1,'method':'execute','params':{'command':'" SCRIPT "'}}\n");
  const char *answer = line_with(host, "stdout");
  expect_erased("stdio", host->pid);
  expect_hidden("stdio", answer, stdio_host_log(host));
  stdio_host_free(host);
}

TEST(a_command_of_mcp_does_not_see_the_key) {
  struct stdio_host *host = start("--mcp");
  stdio_host_send(host, "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
                        "'protocolVersion':'2025-06-18','capabilities':{},"
                        "'clientInfo':{'name':'t','version':'1'}}}\n"
                        "{'jsonrpc':'2.0','method':'notifications/initialized'}\n"
                        "{'jsonrpc':'2.0','id':2,'method':'tools/call','params':{"
                        "'name':'execute_command','arguments':{'command':'" SCRIPT "'}}}\n");
  const char *answer = line_with(host, "OF_THE_POD");
  expect_erased("mcp", host->pid);
  expect_hidden("mcp", answer, stdio_host_log(host));
  stdio_host_free(host);
}

SIDECAR_TEST(a_command_of_a_request_file_does_not_see_the_key) {
  sidecar_start(sidecar, &(struct agent_setup){.environment = environment});
  sidecar_request(sidecar, "1", "{'command':'" SCRIPT "'}");
  const cJSON *output = cJSON_GetObjectItem(sidecar_result(sidecar, "1"), "stdout");
  assert_true(cJSON_IsString(output));
  expect_erased("ipc", agent_process_pid(sidecar->agent));
  expect_hidden("ipc", output->valuestring, agent_process_log(sidecar->agent));
}

/* Starts the agent with this flag (NULL: the mode for steps), sends the request, and checks the
   response. */
static void expect_hidden_over_http(struct http_agent *http, const char *flag, const char *method,
                                    const char *target, const char *body) {
  const char *const fields = "X-Sandbox-Key: " KEY "\r\nAccept: application/x-ndjson\r\n"
                             "Content-Type: application/json\r\n";
  const char *mode = formatted("http %s", flag != NULL ? flag : "");
  http_agent_start(http, (const char *const[]){"--verbose", flag, NULL}, environment);
  struct http_client *client = http_agent_connect(http);
  http_client_send_request(client, method, target, fields, quoted(body));
  const struct http_response *response = http_client_response(client);
  http_agent_expect_status(http, response, 200);
  agent_process_wait_log(http->process, "frontend");
  expect_erased(mode, agent_process_pid(http->process));
  expect_hidden(mode, response->body, agent_process_log(http->process));
}

HTTP_TEST(no_command_over_http_sees_the_key) {
  expect_hidden_over_http(http, NULL, "PUT", "/steps/1",
                          "{'command':'sh','args':['-c','" SCRIPT "']}");
  expect_hidden_over_http(http, "--stdio", "POST", "/execute",
                          "{'params':{'command':'" SCRIPT "'}}");
  expect_hidden_over_http(http, "--mcp", "POST", "/mcp",
                          "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{"
                          "'name':'execute_command','arguments':{'command':'" SCRIPT "'}}}");
}

/* A short value is not masked, and only a mode over HTTP rejects it. */
TEST(a_value_that_is_no_key_is_hidden_in_other_modes) {
  static const char *const variables[] = {"SANDBOX_HTTP_KEY=short", NULL};
  struct stdio_host *host = stdio_host_start(&(struct stdio_host_setup){
      .arguments = (const char *const[]){"--stdio", NULL}, .variables = variables});
  stdio_host_send(host, "{'id':1,'method':'execute','params':{'command':'env'}}\n");
  const char *answer = line_with(host, "stdout");
  assert_null(strstr(answer, "SANDBOX_HTTP_KEY"));
  assert_non_null(strstr(stdio_host_log(host), "the key of HTTP is not masked"));
  stdio_host_free(host);
}
