/* `agent --ipc`: the fields of requests and results. */

#include <sys/sendfile.h>

#include "tests/support/as_user.h"
#include "tests/support/gate.h"
#include "tests/support/proc.h"
#include "tests/support/sidecar.h"
#include "tests/test.h"

/* The runner's request, with all of its fields. */
#define FROM_RUNNER                                                                                \
  "{'id':'1718100000000000000','command':'%s','args':null,'workDir':'/workspace','timeout':30,"    \
  "'target':'','_meta':{'trace_id':'x','span_id':'y','traceparent':'z'}}"

SIDECAR_TEST(the_runner_gets_its_result_and_no_files_remain) {
  static const char *const id = "1718100000000000000";
  sidecar_start(sidecar, NULL);
  const cJSON *result = sidecar_dispatch(
      sidecar, id, formatted(FROM_RUNNER, "echo out; echo err >&2; exit 3"), WAIT_BOUND_MS);
  assert_non_null(result);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 3);
  assert_string_equal(cJSON_GetObjectItem(result, "stdout")->valuestring, "out");
  assert_string_equal(cJSON_GetObjectItem(result, "stderr")->valuestring, "err");
  sidecar_wait_gone(sidecar, sidecar_claim_name(id));
  assert_int_equal(tree_count(sidecar->tree, "tools"), 0);
}

/* The kernel's limit of one argument is 128 KiB. */
SIDECAR_TEST(a_command_that_is_too_long_is_named_once) {
  enum { LENGTH = 131072 };
  static char text[LENGTH + 1], request[LENGTH + 100];
  memset(text, 'x', LENGTH);
  sidecar_start(sidecar, NULL);
  int size = snprintf(request, sizeof request, "{\"command\":\"%s\"}", text);
  sidecar_write(sidecar, sidecar_request_name("1"), request, (size_t)size);
  sidecar_expect(sidecar, "1", 126, "",
                 "tool-executor: the command line has 131072 bytes, and Linux takes at most 131071 "
                 "(128 KiB): use stdin, or a file");
  size = snprintf(request, sizeof request, "{\"argv\":[\"echo\",\"%s\"]}", text);
  sidecar_write(sidecar, sidecar_request_name("2"), request, (size_t)size);
  sidecar_expect(
      sidecar, "2", 126, "",
      "tool-executor: cannot run 'echo': argument 1 has 131072 bytes, and Linux takes at "
      "most 131071 (128 KiB): use stdin, or a file");
}

/* `CMD ["/usr/local/bin/tool-executor.sh"]`, and variables. */
SIDECAR_TEST(the_program_name_selects_the_frontend) {
  char program[96];
  (void)snprintf(program, sizeof program, "%s/tool-executor.sh", sidecar->path);
  char *path = realpath(agent_process_program(), NULL);
  assert_non_null(path);
  assert_int_equal(symlink(path, program), 0);
  free(path);
  const char *const settings[] = {formatted("SANDBOX_IPC_DIR=%s", sidecar->path), NULL};
  sidecar->agent =
      agent_process_start(&(struct agent_setup){.program = program, .environment = settings});
  sidecar_wait_for(sidecar, "tools");
  sidecar_request(sidecar, "1", "{'command':'echo x'}");
  sidecar_expect(sidecar, "1", 0, "x", "");
}

static void set_umask(const void *context) {
  (void)context;
  (void)umask(077);
}

/* The runner may be another user. It treats a result that it cannot read as missing. */
SIDECAR_TEST(a_result_is_one_line_that_every_user_can_read) {
  struct stat file;
  sidecar_start(sidecar, &(struct agent_setup){.prepare = set_umask});
  sidecar_request(sidecar, "17", "{'command':'echo a; printf b'}");
  sidecar_expect(sidecar, "17", 0, "a\nb", "");
  assert_int_equal(stat(sidecar_path(sidecar, sidecar_result_name("17")), &file), 0);
  assert_int_equal(file.st_mode, S_IFREG | 0644);
  tree_expect(sidecar->tree, sidecar_result_name("17"),
              quoted("{'id':'17','exitCode':0,'stdout':'a\\nb','stderr':'','timedOut':false}\n"),
              0644);
}

#define TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

SIDECAR_TEST(a_command_gets_the_trace_of_its_request) {
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "1",
                  "{'command':'echo $TRACEPARENT','_meta':{'traceparent':'" TRACE "'}}");
  sidecar_expect(sidecar, "1", 0, TRACE, "");
  sidecar_request(sidecar, "2", "{'command':'echo -$TRACEPARENT-','_meta':{'traceparent':5}}");
  sidecar_expect(sidecar, "2", 0, "--", "");
  sidecar_request(sidecar, "3", "{'command':'echo -$TRACEPARENT-','_meta':{'traceparent':'x'}}");
  sidecar_expect(sidecar, "3", 0, "--", "");
}

SIDECAR_TEST(a_request_may_begin_with_a_byte_order_mark) {
  static const char request[] = "\xEF\xBB\xBF{\"command\":\"echo x\"}";
  sidecar_start(sidecar, NULL);
  sidecar_write(sidecar, sidecar_request_name("1"), request, sizeof request - 1);
  sidecar_expect(sidecar, "1", 0, "x", "");
}

struct row {
  const char *request;
  int exit_code;
  const char *output;
  const char *errors; /* NULL: not asked for */
};

/* Writes all requests at once and expects their results. */
static void expect_rows(struct sidecar *sidecar, const struct row *rows, size_t count) {
  for (size_t i = 0; i < count; i++)
    sidecar_request(sidecar, formatted("%zu", i), rows[i].request);
  for (size_t i = 0; i < count; i++)
    sidecar_expect(sidecar, formatted("%zu", i), rows[i].exit_code, rows[i].output, rows[i].errors);
}

SIDECAR_TEST(each_field_of_a_request_has_its_effect) {
  static const struct row rows[] = {
      {"{'command':'echo','args':['$WHO','a  b']}", 0, "me a b", ""},
      {"{'command':'echo','args':['x','a  b;','echo y']}", 0, "x a b\ny", ""},
      {"{'argv':['printf','%s|','a  b','$x','*']}", 0, "a  b|$x|*|", ""},
      {"{'argv':['cat'],'stdin':'{}'}", 0, "{}", ""},
      {"{'argv':['wc','-c'],'stdin':'abc'}", 0, "4", ""},
      {"{'argv':['cat'],'stdin':''}", 0, "", ""},
      {"{'command':'cat','stdin':'in a shell'}", 0, "in a shell", ""},
      {"{'command':'cat; echo end'}", 0, "end", ""},
      {"{'command':'pwd','workDir':'/tmp'}", 0, "/tmp", ""},
      {"{'argv':['/bin/sh','-c','echo $SANDBOX_STEP_ID']}", 0, "9", ""},
      {"{'id':'../../x','command':'echo $SANDBOX_STEP_ID'}", 0, "10", ""},
      {"{'command':'[ $BASH ] && echo bash'}", 0, "bash", ""},
      {"{'command':'echo x >>/proc/self/fd/0 || echo sealed','stdin':'x'}", 0, "sealed", NULL},
  };
  static const char *const settings[] = {"WHO=me", NULL};
  sidecar_start(sidecar, &(struct agent_setup){.environment = settings});
  expect_rows(sidecar, rows, sizeof rows / sizeof *rows);
}

SIDECAR_TEST(the_result_reports_how_the_command_ended) {
  static const struct row rows[] = {
      {"{'command':'exit 0'}", 0, "", ""},
      {"{'command':'exit 255'}", 255, "", ""},
      {"{'command':'kill -9 $$'}", 137, "", ""},
      {"{'argv':['sh','-c','kill -TERM $$']}", 143, "", ""},
      {"{'command':'exit 124'}", 124, "", ""}, /* without a timeout */
      {"{'argv':['no-such-tool']}", 127, "",
       "tool-executor: cannot run 'no-such-tool': No such file or directory"},
      {"{'argv':['./no-such-tool']}", 127, "",
       "tool-executor: cannot run './no-such-tool': No such file or directory"},
      {"{'argv':['/etc/passwd']}", 126, "",
       "tool-executor: cannot run '/etc/passwd': permission denied: not executable (no x in its "
       "mode)"},
      {"{'argv':['/etc']}", 126, "",
       "tool-executor: cannot run '/etc': permission denied: it is a directory"},
      {"{'command':'no-such-tool'}", 127, "", NULL},
      {"{'command':'pwd','workDir':'/no/where'}", 125, "",
       "tool-executor: working directory /no/where: No such file or directory"},
      {"{'command':'pwd','workDir':'/etc/passwd'}", 125, "",
       "tool-executor: working directory /etc/passwd: Not a directory"},
      {"{'command':''}", 125, "",
       "tool-executor: command: expected a non-empty string, got an empty string"},
      {"{'argv':'ls'}", 125, "", "tool-executor: argv: expected an array of strings, got a string"},
      {"{'command':'ls',}", 125, "", "tool-executor: request is not valid JSON: broken at byte 16"},
      {"['ls']", 125, "", "tool-executor: request is not valid JSON: broken at byte 0"},
  };
  sidecar_start(sidecar, NULL);
  expect_rows(sidecar, rows, sizeof rows / sizeof *rows);
}

static void expect_timeout(struct sidecar *sidecar, const char *id) {
  const cJSON *result = sidecar_result(sidecar, id);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 124);
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(result, "timedOut")));
  assert_string_equal(cJSON_GetObjectItem(result, "stdout")->valuestring, "up");
}

SIDECAR_TEST(a_deadline_has_the_exit_code_124) {
  static const char *const scripts[] = {"sleep 60", "trap \\\"exit 0\\\" TERM; sleep 60 & wait",
                                        "trap \\\"\\\" TERM; while :; do sleep 1; done"};
  sidecar_start(sidecar, NULL);
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
    sidecar_request(sidecar, formatted("%zu", i),
                    formatted("{'command':'echo up; %s','timeout':3}", scripts[i]));
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
    expect_timeout(sidecar, formatted("%zu", i));
}

SIDECAR_TEST(timeouts_have_a_default_and_a_maximum) {
  static const char *const settings[] = {"SANDBOX_DEFAULT_TIMEOUT=60", "SANDBOX_MAX_TIMEOUT=300",
                                         NULL};
  sidecar_start(sidecar, &(struct agent_setup){.environment = settings});
  static const struct {
    const char *timeout, *logged;
  } rows[] = {{"null", "exec [0] (timeout=60s, "},
              {"1000", "exec [1] (timeout=300s, "},
              {"'120'", "exec [2] (timeout=120s, "},
              {"0", "exec [3] (timeout=60s, "}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    sidecar_request(sidecar, formatted("%zu", i),
                    formatted("{'command':'true','timeout':%s}", rows[i].timeout));
    agent_process_wait_log(sidecar->agent, rows[i].logged);
  }
}

SIDECAR_TEST(the_target_selects_the_agent) {
  static const char *const settings[] = {"SYMPOZIUM_SKILL_PACK=K8s-Ops", NULL};
  sidecar_start(sidecar, &(struct agent_setup){.environment = settings});
  sidecar_request(sidecar, "other", "{'command':'echo no','target':'echotool'}");
  sidecar_request(sidecar, "broken", "{'command':5,'target':'echotool'}");
  sidecar_request(sidecar, "1", "{'command':'echo 1','target':' k8s-OPS\\t'}");
  sidecar_request(sidecar, "2", "{'command':'echo 2'}");
  sidecar_expect(sidecar, "1", 0, "1", "");
  sidecar_expect(sidecar, "2", 0, "2", "");
  assert_false(sidecar_has(sidecar, sidecar_claim_name("other")));
  assert_false(sidecar_has(sidecar, sidecar_claim_name("broken")));
  /* The same name may be used again. */
  sidecar_request(sidecar, "other", "{'command':'echo yes','target':'k8s-ops'}");
  sidecar_expect(sidecar, "other", 0, "yes", "");
}

/* /workspace is missing here, or it is used. */
SIDECAR_TEST(without_a_workspace_commands_run_where_the_agent_is) {
  bool there = access("/workspace", F_OK) == 0;
  sidecar_start(sidecar, &(struct agent_setup){.directory = "/usr"});
  sidecar_request(sidecar, "1", "{'command':'pwd'}");
  sidecar_request(sidecar, "2", "{'argv':['pwd'],'workDir':'/workspace'}");
  sidecar_expect(sidecar, "1", 0, there ? "/workspace" : "/usr", "");
  sidecar_expect(sidecar, "2", 0, there ? "/workspace" : "/usr", "");
}

static void copy_agent(const char *to) {
  struct stat file;
  int in = open(agent_process_program(), O_RDONLY | O_CLOEXEC);
  int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
  assert_int_equal(fstat(in, &file), 0);
  assert_int_equal(sendfile(out, in, NULL, (size_t)file.st_size), file.st_size);
  close(in);
  close(out);
}

/* The root has the agent, the shared directory and no workspace; its mode is 0711. */
TEST_WITH_IF(agent_process_is_shipped(), struct sidecar *sidecar,
             a_workspace_may_be_missing_in_a_root_that_cannot_be_read, sidecar_set_up,
             sidecar_tear_down) {
  static const char *const arguments[] = {"--ipc=/ipc", NULL};
  copy_agent(tree_path(sidecar->tree, "agent"));
  tree_make_directory(sidecar->tree, "ipc", 0777);
  assert_int_equal(chmod(sidecar->tree->path, 0711), 0);
  sidecar_start(sidecar, &(struct agent_setup){
                             .arguments = arguments, .root = sidecar->tree->path, .uid = NOBODY});
  (void)snprintf(sidecar->path, sizeof sidecar->path, "%s/ipc", sidecar->tree->path);
  sidecar_request(sidecar, "1", "{'argv':['/agent','--version']}");
  const cJSON *result = sidecar_result(sidecar, "1");
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
}

SIDECAR_TEST(a_variable_sets_the_default_directory) {
  static const char *const settings[] = {"SANDBOX_WORKDIR=/usr", NULL};
  sidecar_start(sidecar, &(struct agent_setup){.environment = settings});
  sidecar_request(sidecar, "1", "{'command':'pwd'}");
  sidecar_expect(sidecar, "1", 0, "/usr", "");
}

SIDECAR_TEST(the_file_of_a_secret_is_read_for_each_command) {
  tree_make(sidecar->tree, "token=first");
  const char *const settings[] = {
      formatted("SANDBOX_ENV_FILES=GH_TOKEN=%s:NONE=/no/where", tree_path(sidecar->tree, "token")),
      NULL};
  sidecar_start(sidecar, &(struct agent_setup){.environment = settings});
  sidecar_request(sidecar, "1", "{'command':'echo $GH_TOKEN ${NONE-none}'}");
  sidecar_expect(sidecar, "1", 0, "first none", "");
  tree_write(sidecar->tree, "token", "second\n", 0644);
  sidecar_request(sidecar, "2", "{'argv':['sh','-c','echo $GH_TOKEN ${NONE-none}']}");
  sidecar_expect(sidecar, "2", 0, "second none", "");
  assert_int_equal(agent_process_count_log(sidecar->agent, "commands have no NONE"), 1);
}

SIDECAR_TEST(the_log_does_not_show_commands) {
  sidecar_start(sidecar, NULL);
  sidecar_request(sidecar, "1", "{'command':'echo secret; exit 3','workDir':'/tmp'}");
  sidecar_request(sidecar, "2", "{'argv':['no-such-secret'],'workDir':'/tmp'}");
  sidecar_expect(sidecar, "1", 3, "secret", "");
  (void)sidecar_result(sidecar, "2");
  agent_process_wait_log(sidecar->agent, "[tool-executor] exec [1] (timeout=30s, workdir=/tmp)\n");
  agent_process_wait_log(sidecar->agent, "[tool-executor] done [1]: exit=3 timed_out=false\n");
  agent_process_wait_log(sidecar->agent, "[tool-executor] done [2]: exit=127 timed_out=false\n");
  sidecar_write(sidecar, "done", "done", 4);
  assert_int_equal(agent_process_wait(sidecar->agent, WAIT_BOUND_MS), 0);
  assert_int_equal(agent_process_count_log(sidecar->agent, "secret"), 0);
  assert_int_equal(agent_process_count_log(sidecar->agent, "\n"), 6);
}

SIDECAR_TEST(a_verbose_log_shows_commands) {
  static const char *const arguments[] = {"--verbose", NULL};
  sidecar_start(sidecar, &(struct agent_setup){.arguments = arguments});
  sidecar_request(sidecar, "1", "{'command':'echo','args':['x'],'workDir':'/tmp'}");
  sidecar_expect(sidecar, "1", 0, "x", "");
  agent_process_wait_log(sidecar->agent, "workdir=/tmp): echo x\n");
}

/* The number of other names in the directory does not matter. */
SIDECAR_TEST(requests_run_in_order) {
  enum { REQUESTS = 40, OTHERS = 50 };
  static const char *const arguments[] = {"--concurrency=1", NULL};
  char order[96];
  (void)snprintf(order, sizeof order, "%s/order", sidecar->path);
  tree_make(sidecar->tree, "tools/ order");
  for (int i = 0; i < REQUESTS; i++) { /* the oldest has the last name */
    for (int other = 0; other < OTHERS; other++)
      sidecar_write(sidecar, formatted("tools/other-%d-%d", i, other), "", 0);
    const char *id = formatted("%02d", REQUESTS - 1 - i);
    sidecar_request(sidecar, id, formatted("{'command':'echo %s >>%s'}", id, order));
    const struct timespec times[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
    assert_int_equal(utimensat(AT_FDCWD, sidecar_path(sidecar, sidecar_request_name(id)), times, 0),
                     0);
  }
  sidecar_start(sidecar, &(struct agent_setup){.arguments = arguments});
  char expected[REQUESTS * 3 + 1], *end = expected;
  for (int i = REQUESTS - 1; i >= 0; i--) {
    sidecar_expect(sidecar, formatted("%02d", i), 0, "", "");
    end = stpcpy(end, formatted("%02d\n", i));
  }
  tree_expect(sidecar->tree, "order", expected, 0644);
}

/* The agent passes the input of a command in a memory file and keeps no second copy. */
TEST_WITH_IF(agent_process_is_shipped(), struct sidecar *sidecar,
             large_inputs_take_little_memory_of_the_agent, sidecar_set_up, sidecar_tear_down) {
  enum { REQUESTS = 16, INPUT = 4000000, PEAK_MAX_KIB = 40 * 1024 };
  static const char *const arguments[] = {"--concurrency=16", NULL};
  sidecar_start(sidecar, &(struct agent_setup){.arguments = arguments});
  for (int i = 0; i < REQUESTS; i++) {
    const char *path = sidecar_path(sidecar, sidecar_request_name(formatted("%02d", i)));
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fprintf(file, "{\"command\":\"" GATE("%s/go") "wc -c\",\"timeout\":120,",
                        sidecar->path, sidecar->path) > 0);
    assert_true(fprintf(file, "\"stdin\":\"%0*d\"}", INPUT, 0) > INPUT);
    assert_int_equal(fclose(file), 0);
  }
  gate_open(sidecar_path(sidecar, "go"));
  for (int i = 0; i < REQUESTS; i++)
    sidecar_expect(sidecar, formatted("%02d", i), 0, "4000001", ""); /* and a newline */
  long peak = proc_status_kib(agent_process_pid(sidecar->agent), "VmHWM");
  print_message("resident: %ld KiB at most\n", peak);
  assert_in_range(peak, 0, PEAK_MAX_KIB);
}

SIDECAR_TEST(at_most_sixteen_requests_run_at_once) {
  tree_make(sidecar->tree, "tools/ gate|");
  char gate[96];
  (void)snprintf(gate, sizeof gate, "%s/gate", sidecar->path);
  for (int i = 0; i < 17; i++)
    sidecar_request(sidecar, formatted("%02d", i),
                    formatted("{'command':'touch up-%02d; read x <%s','workDir':'%s'}", i, gate,
                              sidecar->path));
  sidecar_start(sidecar, NULL);
  for (int i = 0; i < 16; i++)
    sidecar_wait_for(sidecar, formatted("up-%02d", i));
  assert_false(sidecar_has(sidecar, "up-16"));
  int fd = open(gate, O_RDWR | O_CLOEXEC);
  for (int i = 0; i < 17; i++)
    assert_int_equal(write(fd, "x\n", 2), 2);
  for (int i = 0; i < 17; i++)
    (void)sidecar_result(sidecar, formatted("%02d", i));
  close(fd);
}

TEST_OVERLAP(4)
