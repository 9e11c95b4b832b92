/* sandbox run with a policy and limits. In most tests the agent is the test itself: its heartbeat
   names features, and the step is answered here. */
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/http_sandbox.h"
#include "tests/support/quoted.h"
#include "tests/support/sandbox_client.h"
#include "tests/test.h"

static void set_heartbeat(struct job *job, const char *members) {
  job_do(job, "SET sandbox:%s:heartbeat %s", job->id,
         job_json(job, "{'Ts':1,'Version':'0.4.0'%s,'Pid':1}", members));
}

#define FEATURES ",'Features':['raw','flowControl','replyTo','control','fence','limits']"
#define OLD_FEATURES ",'Features':['raw','flowControl','replyTo','control']"

/* --- options ---------------------------------------------------------------------------------- */

/* Before it connects: no Redis listens there. */
JOB_TEST_NO_AGENT(a_malformed_policy_is_wrong_usage) {
  static const struct {
    const char *words, *error;
  } cases[] = {
      {"--fence ''", "fence: expected JSON, got invalid or truncated text near byte 0"},
      {"--fence '{'", "fence: expected JSON, got "},
      {"--fence '[]'", "fence: expected an object, got an array"},
      {"--fence '{} {}'", "fence: expected one object, got more behind it at byte 3"},
      {"--fence '{\"writePath\":[]}'", "fence.writePath: unknown field; sandbox run --help"},
      {"--fence '{\"writePaths\":\"/a\"}'",
       "fence.writePaths: expected an array of strings, got a string"},
      {"--fence '{\"readPaths\":[\"\"]}'",
       "fence.readPaths[0]: expected a path of 1 to 4095 bytes, got 0"},
      {"--fence '{\"network\":\"off\"}'", "fence.network: expected one of all, ports, loopback, "
                                          "none, got \"off\"; sandbox run --help"},
      {"--fence '{\"network\":\"none\",\"network\":\"all\"}'",
       "fence.network: expected once, got it twice"},
      {"--fence '{\"tcpConnect\":[443]}'",
       "fence.tcpConnect: expected only with network \"ports\", got it with \"all\""},
      {"--fence '{\"network\":\"ports\",\"tcpBind\":[65536]}'",
       "fence.tcpBind[0]: expected a whole number from 0 to 65535, got 65536"},
      {"--fence '{\"bestEffort\":1}'", "fence.bestEffort: expected true or false, got a number"},
      {"--fence @/no/such/file", "--fence: cannot read /no/such/file: No such file or directory"},
      {"--fence @/", "--fence: cannot read /: Is a directory"},
      {"--fence @/dev/zero", "--fence: /dev/zero has more than 1048576 bytes"},
      {"--fence '{\"writePaths\":[\"/a\"]}' --read-only",
       "--read-only: --fence has other writePaths"},
      {"--fence '{\"network\":\"loopback\"}' --no-network",
       "--no-network: --fence has the network \"loopback\""},
      {"--fence '{\"network\":\"all\"}' --no-network",
       "--no-network: --fence has the network \"all\""},
      {"--limits 7", "limits: expected an object, got a number"},
      {"--limits '{\"memory\":1}'", "limits.memory: unknown field"},
      {"--limits '{\"processes\":0}'",
       "limits.processes: expected a whole number from 1 to 9007199254740991, got 0"},
      {"--limits @/no/such/file", "--limits: cannot read /no/such/file: No such file or directory"},
      {"--limits '{}' --fence '{\"a\":1}'", "fence.a: unknown field"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct agent_process *client = sandbox_start(
        job, job_format(job, "REDIS_URL=redis://127.0.0.1:1 $S run %s -- true", cases[i].words));
    const int code = agent_process_wait(client, WAIT_BOUND_MS);
    const char *log = agent_process_log(client);
    const char *expected = job_format(job, "sandbox: run: %s", cases[i].error);
    if (code != 64 || strncmp(log, expected, strlen(expected)) != 0)
      job_fail(job, "%s: exit %d, `%s`, not `%s`", cases[i].words, code, log, expected);
    agent_process_free(client);
  }
}

/* Pushes a step, and returns its text. $F is a file with limits. */
static const char *push(struct job *job, const char *words) {
  const char *file = job_write(job, "limits.json", "{\"openFiles\":64}\n", 0600);
  sandbox_expect(job, job_format(job, "F='%s'; $S run --detach %s -- true >$F.id", file, words), 0,
                 "", "");
  return job_ask_text(job, "LPOP sandbox:%s:in", job->id);
}

JOB_TEST_NO_AGENT(the_step_has_the_policy_and_the_limits) {
  static const struct {
    const char *words, *fields;
  } cases[] = {
      {"--fence '{}'", ",'fence':{}}"},
      {"--fence '{\"writePaths\":[\"src\", \"/tmp\"],\"bestEffort\":null}'",
       ",'fence':{'writePaths':['src', '/tmp']}}"},
      {"--read-only", ",'fence':{'writePaths':[]}}"},
      {"--no-network", ",'fence':{'network':'none'}}"},
      {"--no-network --read-only", ",'fence':{'writePaths':[],'network':'none'}}"},
      {"--fence '{\"network\":\"none\",\"readPaths\":[\"/usr\"]}' --read-only --no-network",
       ",'fence':{'writePaths':[],'network':'none','readPaths':['/usr']}}"},
      {"--fence '{\"writePaths\":[],\"network\":null}' --read-only --no-network",
       ",'fence':{'writePaths':[],'network':'none'}}"},
      {"--fence '{\"a\":1}' --fence '{\"network\":\"none\"}'", ",'fence':{'network':'none'}}"},
      {"--limits '{\"memoryBytes\":1073741824,\"coreBytes\":0}'",
       ",'limits':{'memoryBytes':1073741824,'coreBytes':0}}"},
      {"--limits \"@$F\" --read-only", ",'fence':{'writePaths':[]},'limits':{'openFiles':64}\n}"},
  };
  set_heartbeat(job, FEATURES);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *step = push(job, cases[i].words);
    if (strstr(step, quoted(cases[i].fields)) == NULL)
      job_fail(job, "%s: pushed %s", cases[i].words, step);
  }
}

/* --- agents that do not know the fields ------------------------------------------------------- */

static const struct {
  const char *words, *error;
} needs[] = {
    {"--fence '{}'", "--fence needs an agent that announces the feature fence"},
    {"--fence '{}' --read-only", "--fence needs an agent that announces the feature fence"},
    {"--read-only --no-network", "--read-only needs an agent that announces the feature fence"},
    {"--no-network", "--no-network needs an agent that announces the feature fence"},
    {"--limits '{}'", "--limits needs an agent that announces the feature limits"}};
#define NEEDS (sizeof needs / sizeof *needs)

JOB_TEST_NO_AGENT(nothing_is_pushed_to_an_agent_without_the_feature) {
  static const char *const modes[] = {"", "--detach"};
  set_heartbeat(job, OLD_FEATURES);
  for (size_t i = 0; i < 2 * NEEDS; i++)
    sandbox_expect(job, job_format(job, "$S run %s %s -- true", modes[i % 2], needs[i / 2].words),
                   125, "", job_format(job, "sandbox: %s (0.4.0 or later)\n", needs[i / 2].error));
  job_do(job, "DEL sandbox:%s:heartbeat", job->id);
  sandbox_expect(job, "$S run --detach --read-only -- true", 125, "",
                 "sandbox: --read-only needs an agent that announces the feature fence (0.4.0 or "
                 "later), and there is no heartbeat\n");
  sandbox_expect(
      job, "$S run --read-only -- true", 125, "",
      job_format(job, "sandbox: no agent for %s: no heartbeat, and 0 steps wait\n", job->id));
  assert_int_equal(job_length(job, "in"), 0);
}

/* Answers each request as the health of an agent, and notes its first line. Never returns. */
static void serve_health(int listener, const char *path, const char *health) {
  char request[4096];
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int peer; (peer = accept(listener, NULL, NULL)) >= 0; close(peer)) {
    size_t length = 0;
    ssize_t count;
    while (length < sizeof request - 1 &&
           (count = read(peer, request + length, sizeof request - 1 - length)) > 0) {
      length += (size_t)count;
      request[length] = '\0';
      if (strstr(request, "\r\n\r\n") != NULL)
        break;
    }
    FILE *notes = fopen(path, "ae");
    if (notes == NULL)
      break;
    (void)fprintf(notes, "%.*s\n", (int)strcspn(request, "\r\n"), request);
    (void)fclose(notes);
    (void)dprintf(peer,
                  "HTTP/1.1 200 OK\r\nSandbox-Instance: 1\r\nConnection: close\r\n"
                  "Content-Length: %zu\r\n\r\n%s",
                  strlen(health), health);
  }
  _exit(1);
}

static pid_t start_health(struct http_agent *http, const char *health) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const char *socket_path = directory_path(&http->directory, "fake.sock");
  const char *path = directory_path(&http->directory, "requests");
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(strlen(socket_path) < sizeof address.sun_path);
  memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
  assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(listen(listener, 16), 0);
  const pid_t pid = fork();
  if (pid == 0)
    serve_health(listener, path, health);
  close(listener);
  return pid;
}

HTTP_TEST(nothing_is_sent_over_http_to_an_agent_without_the_feature) {
  const pid_t pid = start_health(
      http, quoted("{'mode':'steps','pid':1,'version':'0.3.0','features':['raw','stdin']}"));
  for (size_t i = 0; i < NEEDS; i++)
    http_sandbox_expect(
        http,
        formatted("export SANDBOX_URL=http+unix://$HTTP_DIRECTORY/fake.sock; $S run %s -- true",
                  needs[i].words),
        125, "", formatted("sandbox: %s (0.4.0 or later)\n", needs[i].error));
  http_sandbox_expect(http, "sort -u $HTTP_DIRECTORY/requests", 0, "GET /health HTTP/1.1\n", "");
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* --- what the agent says ---------------------------------------------------------------------- */

static void add_event(struct job *job, const char *id, int seq, const char *members) {
  job_do(job, "XADD sandbox:%s:events * data %s", job->id,
         job_json(job,
                  "{'schemaVersion':1,'stepId':'%s','timestamp':'2026-05-05T10:00:00.1+00:00',"
                  "'seq':%d,%s}",
                  id, seq, members));
}

struct answer {
  const char *options; /* of `run` */
  const char *started; /* members of the event */
  const char *result;  /* members, with the exit code */
};

/* Runs a step, and answers it. */
static struct agent_process *run_answered(struct job *job, struct answer answer) {
  set_heartbeat(job, FEATURES);
  struct agent_process *client =
      sandbox_start(job, job_format(job, "exec $S run %s -- true", answer.options));
  job_wait_length(job, "in", 1);
  const char *text = job_ask_text(job, "LPOP sandbox:%s:in", job->id);
  const cJSON *step = job_own(job, cJSON_Parse(text));
  const char *id = job_text(step, "stepId");
  add_event(job, id, 1, job_format(job, "'kind':'started','line':'true'%s", answer.started));
  add_event(job, id, 2, "'kind':'completed','line':'exit=0 timedOut=False'");
  job_do(job, "LPUSH sandbox:%s:results:%s %s", job->id, id,
         job_json(job, "{'stepId':'%s','timedOut':false,'eventCount':2,%s}", id, answer.result));
  return client;
}

static void expect_answer(struct job *job, struct answer answer, int code, const char *errors) {
  struct agent_process *client = run_answered(job, answer);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), code);
  assert_string_equal(agent_process_log(client), errors);
  agent_process_free(client);
}

JOB_TEST_NO_AGENT(run_says_what_was_not_enforced_and_what_was_denied) {
  struct answer answer = {
      .options = "--read-only",
      .started = ",'fence':{'landlock':3,'enforced':['write'],'missing':['signals','udp']}",
      .result = "'exitCode':1,'fence':{'missing':['signals','udp'],'denials':["
                "{'access':'write','path':'/etc/x','certain':true},"
                "{'access':'network','certain':false}]}"};
  expect_answer(job, answer, 1,
                "sandbox: not enforced: signals, udp\n"
                "sandbox: denied by the sandbox policy: write /etc/x\n"
                "sandbox: perhaps denied by the sandbox policy: network\n");
  answer.options = "-q --read-only";
  expect_answer(job, answer, 1, "");
  answer.result = "'exitCode':0";
  answer.options = "--read-only";
  expect_answer(job, answer, 0, "");
}

JOB_TEST_NO_AGENT(the_json_option_passes_the_policy_on) {
  struct agent_process *client =
      run_answered(job, (struct answer){.options = "--json --no-network",
                                        .started = ",'fence':{'network':'none','missing':[]}",
                                        .result = "'exitCode':0,'fence':{'missing':['udp']}"});
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 0);
  assert_non_null(
      strstr(agent_process_output(client), quoted(",'fence':{'network':'none','missing':[]}}\n")));
  assert_non_null(strstr(agent_process_output(client), quoted(",'fence':{'missing':['udp']}}}\n")));
  assert_string_equal(agent_process_log(client), "");
  agent_process_free(client);
}

/* Another agent may have taken the step than the one that was asked. */
JOB_TEST_NO_AGENT(a_step_that_ran_without_its_policy_is_an_error) {
  static const char ignored[] =
      "sandbox: the agent has executed the step without its sandbox policy\n";
  struct answer answer = {
      .options = "--fence '{}'", .started = "", .result = "'exitCode':0,'end':{'cause':'exited'}"};
  expect_answer(job, answer, 125, ignored);
  answer.options = "-q --fence '{}'";
  expect_answer(job, answer, 125, ignored);
  answer.options = "";
  expect_answer(job, answer, 0, "");
}

JOB_TEST_NO_AGENT(a_refused_step_did_not_run) {
  expect_answer(job,
                (struct answer){.options = "--fence '{\"writePaths\":[\"x\"]}'",
                                .started = "",
                                .result = "'exitCode':-1,'end':{'cause':'refused'},'errorMessage':"
                                          "'fence.writePaths[0] /work/x: no such file'"},
                125, "sandbox: fence.writePaths[0] /work/x: no such file\n");
}

JOB_TEST_NO_AGENT(run_says_which_limit_has_ended_a_step) {
  static const char *const causes[] = {"memoryLimit", "processLimit", "cpuLimit", "fileSizeLimit"};
  for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
    const char *result = job_format(
        job,
        "'exitCode':137,'durationSeconds':1,'errorMessage':'too much (%zu)\\noutput','end':{"
        "'cause':'%s','signalName':'SIGKILL'}",
        i, causes[i]);
    struct agent_process *client = run_answered(
        job, (struct answer){.options = "--limits '{}'", .started = "", .result = result});
    assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 137);
    assert_non_null(
        strstr(agent_process_log(client), formatted(" too much (%zu) after 1.0s\n", i)));
    agent_process_free(client);
  }
}

/* --- the agent -------------------------------------------------------------------------------- */

/* The policy is one that every kernel enforces in part. */
static const char no_socket[] =
    "$S -q run --fence '{\"bestEffort\":true}' --no-network -- "
    "bash -c '>/dev/tcp/127.0.0.1/9' 2>&1 | grep -o 'socket: Permission denied'";
static const char few_files[] = "$S run --limits '{\"openFiles\":64}' -c 'ulimit -n; ulimit -c'";

JOB_TEST(the_agent_obeys_the_policy_and_the_limits) {
  sandbox_expect(job, no_socket, 0, "socket: Permission denied\n", "");
  sandbox_expect(job, few_files, 0, "64\n0\n", "");
  sandbox_expect(job, "$S run --fence '{\"writePaths\":[\"/no/such\"]}' -- true", 125, "", NULL);
}

HTTP_TEST(the_agent_obeys_the_policy_and_the_limits_over_http) {
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect(http, no_socket, 0, "socket: Permission denied\n", "");
  http_sandbox_expect(http, few_files, 0, "64\n0\n", "");
}

/* --- doctor ----------------------------------------------------------------------------------- */

#define NO_LANDLOCK                                                                                \
  "Linux 6.12 with landlock in its option lsm=, and a seccomp profile that allows "                \
  "landlock_create_ruleset"

JOB_TEST_NO_AGENT(doctor_says_what_the_kernel_can_enforce) {
  static const struct {
    const char *members, *finding;
  } cases[] = {
      {",'Landlock':7,'Enforces':['write','read','signals']",
       "✓ the kernel enforces a sandbox policy: write, read, signals (Landlock ABI 7)\n"},
      {",'Pid':1,'Landlock':3,'Enforces':['write','read','network']",
       "✓ the kernel enforces a part of a sandbox policy: write, read, network (Landlock ABI 3, "
       "and Linux 6.12 has all of it)\n"},
      {",'Pid':2,'Landlock':3,'Enforces':['write','read','network']",
       "! the kernel enforces only a part of a sandbox policy: write, read, network (Landlock ABI "
       "3): the agent refuses every policy without bestEffort   → Linux 6.12, or an agent that is "
       "process 1 of its container\n"},
      {",'Landlock':0,'Enforces':['network','agent']",
       "! the kernel has no Landlock, and enforces only a part of a sandbox policy: network, "
       "agent   → " NO_LANDLOCK "\n"},
      {",'Landlock':0,'Enforces':[]",
       "! the kernel has no Landlock, and enforces no sandbox policy   → " NO_LANDLOCK "\n"},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    set_heartbeat(job, job_format(job, FEATURES "%s", cases[i].members));
    sandbox_expect(job, "$S doctor | grep 'sandbox policy'; true", 0, cases[i].finding, "");
  }
  set_heartbeat(job, OLD_FEATURES);
  sandbox_expect(job, "$S doctor | grep -c 'lacks features: .*fence, limits'", 0, "1\n", "");
}
