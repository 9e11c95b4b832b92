/* No command gets the variables that are flags of the agent, in any frontend. --help lists them; it
   is generated from the same table. */

#include <ctype.h>

#include "tests/support/job.h"
#include "tests/support/sidecar.h"
#include "tests/support/stdio_host.h"

enum { NAMES_MAX = 100, NAME_SIZE = 64 };

static struct {
  char names[NAMES_MAX][NAME_SIZE];
  size_t count;
  char assignments[NAMES_MAX][NAME_SIZE + 1];
  const char *environment[NAMES_MAX + 4];
} variables;

static void add_name(const char *name, size_t length) {
  assert_true(variables.count < NAMES_MAX && length < NAME_SIZE);
  (void)snprintf(variables.names[variables.count++], NAME_SIZE, "%.*s", (int)length, name);
}

/* Flags that select what the program does have no variable. */
static bool is_action(const char *flag, size_t length) {
  static const char *const actions[] = {"once", "mcp", "ipc", "stdio", "inject", "help", "version"};
  for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
    if (strlen(actions[i]) == length && strncmp(actions[i], flag, length) == 0)
      return true;
  return false;
}

/* Parses `  --flag VALUE  text`, its lines of text, and perhaps `[NAME]` or `[NAME, or ALIAS]`. */
static void read_help(const char *help) {
  for (const char *line = help; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
    const char *at = line + strspn(line, " ");
    if (strncmp(line, "  --", 4) == 0) {
      const char *flag = line + 4;
      size_t length = strspn(flag, "abcdefghijklmnopqrstuvwxyz-");
      char name[NAME_SIZE];
      (void)snprintf(name, sizeof name, "SANDBOX_%.*s", (int)length, flag);
      for (char *c = name; *c != '\0'; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
      if (!is_action(flag, length))
        add_name(name, strlen(name));
    } else if (at > line && *at == '[' && isupper((unsigned char)at[1])) {
      size_t length = strcspn(at + 1, ",]");
      const char *alias = at + 1 + length;
      if (variables.count > 0 && *alias == ']' && strstr(at, "SANDBOX_IPC_DIR") != at + 1)
        variables.count--; /* replaces the usual name */
      if (*alias == ']')
        add_name(at + 1, length);
      else
        add_name(alias + strlen(", or "), strcspn(alias + strlen(", or "), "]"));
    }
  }
}

static bool is_known(const char *name) {
  for (size_t i = 0; i < variables.count; i++)
    if (strcmp(variables.names[i], name) == 0)
      return true;
  return false;
}

/* An empty variable sets no flag, but it is a variable. */
static int make_environment(void **state) {
  (void)state;
  struct agent_process *agent = agent_process_start(
      &(struct agent_setup){.arguments = (const char *const[]){"--help", NULL}});
  assert_int_equal(agent_process_wait(agent, 10000), 0);
  read_help(agent_process_output(agent));
  agent_process_free(agent);
  static const char *const some[] = {"REDIS_URL",           "JOB_ID",
                                     "REDIS_CACERT",        "REDIS_KEY",
                                     "SANDBOX_RUN_ID",      "AGENTSMITH_RUN_ID",
                                     "SANDBOX_IDLE_CYCLES", "AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES",
                                     "SANDBOX_EVENTS_PACE", "SANDBOX_INSECURE",
                                     "SANDBOX_VERBOSE",     "SANDBOX_IPC_DIR",
                                     "SANDBOX_ENV_FILES",   "SANDBOX_DEADLINE",
                                     "SANDBOX_HTTP",        "SANDBOX_HTTP_KEY_FILE",
                                     "SANDBOX_HTTP_OPEN"};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++)
    if (!is_known(some[i]))
      fail_msg("--help has no %s", some[i]);
  assert_false(is_known("SANDBOX_JOB_ID"));
  add_name("SANDBOX_JOB_ID", strlen("SANDBOX_JOB_ID")); /* an earlier version gave it to commands */
  add_name("TOOL_NAME", strlen("TOOL_NAME"));           /* of tool-runner */
  add_name("SANDBOX_HTTP_KEY", strlen("SANDBOX_HTTP_KEY")); /* belongs to no flag */
  for (size_t i = 0; i < variables.count; i++) {
    (void)snprintf(variables.assignments[i], sizeof *variables.assignments,
                   "%s=", variables.names[i]);
    variables.environment[i] = variables.assignments[i];
  }
  variables.environment[variables.count] = "OF_THE_POD=kept";
  variables.environment[variables.count + 1] = "SANDBOX_VERSION=of the image";
  return 0;
}

TEST_GROUP(make_environment, NULL)

/* Finds the assignment of this variable; the newline before it may be escaped as in JSON. */
static const char *variable_in(const char *text, const char *name) {
  const char *assignment = formatted("%s=", name);
  for (const char *at = text; (at = strstr(at, assignment)) != NULL; at++)
    if (at == text || !(isupper((unsigned char)at[-1]) || at[-1] == '_'))
      return at;
  return NULL;
}

/* Fails if the output of `env` has a variable of the agent, except `but`. */
static void expect_none(const char *frontend, const char *text, const char *but) {
  if (variable_in(text, "OF_THE_POD") == NULL || variable_in(text, "SANDBOX_VERSION") == NULL ||
      variable_in(text, "SANDBOX_STEP_ID") == NULL || variable_in(text, "SANDBOX_STEP_TAG") == NULL)
    fail_msg("%s: not all is kept in %s", frontend, text);
  for (size_t i = 0; i < variables.count; i++)
    if (strcmp(variables.names[i], but) != 0 && variable_in(text, variables.names[i]) != NULL)
      fail_msg("%s: %s in %s", frontend, variables.names[i], text);
}

JOB_TEST_NO_AGENT(a_command_of_a_step_gets_no_variable_of_the_agent) {
  job->setup.environment = variables.environment;
  job_start_agent(job, NULL);
  const cJSON *result = job_run(job, job_step(job, "env", NULL));
  expect_none("redis", job_text(result, "outputContent"), "");
  for (size_t i = 0; i < variables.count; i++) {
    cJSON *step = job_step(job, "env", NULL);
    cJSON *env = cJSON_AddObjectToObject(step, "env");
    cJSON_AddStringToObject(env, variables.names[i], "of the step");
    const char *output = job_text(job_run(job, step), "outputContent");
    expect_none("redis", output, variables.names[i]);
    if (strstr(output, formatted("%s=of the step\n", variables.names[i])) == NULL)
      job_fail(job, "no %s in %s", variables.names[i], output);
  }
}

JOB_TEST_NO_AGENT(a_command_does_not_get_the_settings_of_a_live_pod) {
  const char *const environment[] = {job_format(job, "REDIS_URL=%s", job->url),
                                     job_format(job, "JOB_ID=%s", job->id),
                                     "AGENTSMITH_RUN_ID=run-7",
                                     "AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES=7",
                                     "SANDBOX_EVENTS_MAXLEN=20000",
                                     "OF_THE_POD=kept",
                                     "SANDBOX_VERSION=of the image",
                                     NULL};
  job->agent = agent_process_start(&(struct agent_setup){.environment = environment});
  const cJSON *result = job_run(job, job_step(job, "env", NULL));
  expect_none("redis", job_text(result, "outputContent"), "");
}

/* Checks the next line with the output of `env`. */
static void expect_none_of_host(struct stdio_host *host, const char *frontend, const char *but) {
  const char *line;
  do
    line = stdio_host_line(host);
  while (line != NULL && (strstr(line, "OF_THE_POD") == NULL || strstr(line, "PATH=") == NULL));
  if (line == NULL)
    fail_msg("%s: no answer; log: %s", frontend, stdio_host_log(host));
  else
    expect_none(frontend, line, but);
}

static struct stdio_host *start(const char *flag) {
  const char *arguments[] = {flag, NULL};
  return stdio_host_start(
      &(struct stdio_host_setup){.arguments = arguments, .variables = variables.environment});
}

TEST(a_command_of_once_gets_no_variable_of_the_agent) {
  for (int own = 0; own < 2; own++) {
    struct stdio_host *host = start("--once");
    stdio_host_send(host, own ? "{'stepId':'1','command':'sh','args':['-c','env|tr `\\\\n` :'],"
                                "'env':{'JOB_ID':'x'}}"
                              : "{'stepId':'1','command':'sh','args':['-c','env|tr `\\\\n` :']}");
    expect_none_of_host(host, "once", own ? "JOB_ID" : "");
    stdio_host_free(host);
  }
}

TEST(a_command_of_stdio_gets_no_variable_of_the_agent) {
  struct stdio_host *host = start("--stdio");
  stdio_host_send(host, "{'id':1,'method':'execute','params':{'command':'env'}}\n");
  expect_none_of_host(host, "stdio", "");
  stdio_host_send(host, "{'id':1,'method':'execute','params':{'command':'env',"
                        "'env':['JOB_ID=x']}}\n");
  expect_none_of_host(host, "stdio", "JOB_ID");
  stdio_host_free(host);
}

TEST(a_command_of_mcp_gets_no_variable_of_the_agent) {
  struct stdio_host *host = start("--mcp");
  stdio_host_send(host, "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
                        "'protocolVersion':'2025-06-18','capabilities':{},"
                        "'clientInfo':{'name':'t','version':'1'}}}\n"
                        "{'jsonrpc':'2.0','method':'notifications/initialized'}\n"
                        "{'jsonrpc':'2.0','id':2,'method':'tools/call','params':{"
                        "'name':'execute_command','arguments':{'command':'env'}}}\n");
  expect_none_of_host(host, "mcp", "");
  stdio_host_free(host);
}

SIDECAR_TEST(a_command_of_a_request_file_gets_no_variable_of_the_agent) {
  sidecar_start(sidecar, &(struct agent_setup){.environment = variables.environment});
  sidecar_request(sidecar, "1", "{'command':'env'}");
  const cJSON *output = cJSON_GetObjectItem(sidecar_result(sidecar, "1"), "stdout");
  assert_true(cJSON_IsString(output));
  expect_none("ipc", output->valuestring, "");
}
