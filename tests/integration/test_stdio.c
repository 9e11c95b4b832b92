/* `agent --stdio`: one line for each request, and one for each answer. */

#include <cjson/cJSON.h>

#include "tests/support/gate.h"
#include "tests/support/proc.h"
#include "tests/support/stdio_host.h"
#include "tests/test.h"

#define TRIAL_TEST(NAME)                                                                           \
  TEST_WITH(struct stdio_trial *trial, NAME, stdio_trial_set_up, stdio_trial_tear_down)

static struct stdio_host *start(struct stdio_trial *self, const char *first, const char *second) {
  const char *arguments[] = {"--stdio", "--verbose", first, second, NULL};
  stdio_host_free(self->host);
  self->host = stdio_host_start(
      &(struct stdio_host_setup){.arguments = arguments, .directory = self->directory.path});
  return self->host;
}

/* A plugin has no arguments; the name of its file is the name of the tool. */
static struct stdio_host *start_plugin(struct stdio_trial *self, const char *name) {
  stdio_host_free(self->host);
  self->host =
      stdio_host_start(&(struct stdio_host_setup){.name = name, .directory = self->directory.path});
  return self->host;
}

static struct stdio_host *start_runner(struct stdio_trial *self, const char *tool) {
  const char *arguments[] = {tool, NULL};
  stdio_host_free(self->host);
  self->host = stdio_host_start(&(struct stdio_host_setup){.name = "/usr/local/bin/tool-runner",
                                                           .arguments = arguments,
                                                           .directory = self->directory.path});
  return self->host;
}

static void send_command(struct stdio_host *host, const char *id, const char *command) {
  stdio_host_send(
      host, formatted("{'id':%s,'method':'execute','params':{'command':'%s'}}\n", id, command));
}

static void expect_output(struct stdio_host *host, const char *id, const char *output) {
  stdio_host_expect(host, formatted("{'id':%s,'result':{'exitCode':0,'stdout':'%s','stderr':'',"
                                    "'timedOut':false,'durationSeconds':S}}",
                                    id, output));
}

static void expect_error(struct stdio_host *host, const char *id, const char *message) {
  stdio_host_expect(host, formatted("{'id':%s,'error':{'code':-1,'message':'%s'}}", id, message));
}

static void end_input(struct stdio_host *host) {
  stdio_host_close_input(host);
  stdio_host_expect_exit(host, 0);
}

/* A process without other flags, which must exit with 0 after the test. */
#define HOST_TEST(NAME)                                                                            \
  static void NAME##_by(struct stdio_trial *trial, struct stdio_host *host);                       \
  TRIAL_TEST(NAME) {                                                                               \
    struct stdio_host *host = start(trial, NULL, NULL);                                            \
    NAME##_by(trial, host);                                                                        \
    end_input(host);                                                                               \
  }                                                                                                \
  static void NAME##_by(__attribute__((unused)) struct stdio_trial *trial, struct stdio_host *host)

/* --- plain lines ------------------------------------------------------------------------------ */

HOST_TEST(a_command_is_answered_in_one_line) {
  stdio_host_send(host, "{'id': 'req-1', 'method': 'execute', 'params': {'command': 'echo hi'}}\n");
  expect_output(host, "'req-1'", "hi\\n");
  send_command(host, "'req-2'", "printf a; printf b >&2; exit 3");
  stdio_host_expect(host, "{'id':'req-2','result':{'exitCode':3,'stdout':'a','stderr':'b',"
                          "'timedOut':false,'durationSeconds':S}}");
  send_command(host, "'req-3'", "kill -ABRT $$");
  stdio_host_expect(host, "{'id':'req-3','result':{'exitCode':134,'stdout':'','stderr':'',"
                          "'timedOut':false,'durationSeconds':S}}");
}

HOST_TEST(an_id_is_echoed_byte_for_byte) {
  static const char *const ids[] = {
      "'req-1'",   "''",   "0",          "-1",        "1.50", "1e3", "18446744073709551615",
      "'\\u00e9'", "null", "'a\\/\\'b'", "'\xC3\xA9'"};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    stdio_host_send(host, formatted("{'method':'ping', 'id' : %s }\n", ids[i]));
    stdio_host_expect(host, formatted("{'id':%s,'result':{}}", ids[i]));
    stdio_host_send(host, formatted("{'params':{'command':'true','id':5},'id':%s,"
                                    "'method':'execute'}\n",
                                    ids[i]));
    expect_error(host, ids[i],
                 "unknown argument `id` (execute_command takes command, args, workdir, timeout, "
                 "env, stdin)");
  }
  stdio_host_send(host, "{'method':'ping'}\n");
  stdio_host_expect(host, "{'id':null,'result':{}}");
}

/* Answers cannot hold an image. */
HOST_TEST(read_file_names_the_type_of_an_image) {
  FILE *file = fopen(directory_path(&trial->directory, "f"), "w");
  assert_non_null(file);
  assert_true(fputs("\x89PNG\r\n\x1A\n\xFF", file) >= 0);
  assert_int_equal(fclose(file), 0);
  stdio_host_send(host, "{'id':1,'method':'read_file','params':{'path':'f'}}\n");
  stdio_host_expect(host, "{'id':1,'result':{'output':'(image/png, 9 bytes: not shown as text)'}}");
}

HOST_TEST(tools_are_called_as_methods_or_as_parameters) {
  stdio_host_send(
      host, "{'id':1,'method':'write_file','params':{'path':'f','content':'a\\u0000b\\n'}}\n");
  stdio_host_expect(host, "{'id':1,'result':{'output':'Successfully wrote 4 bytes to f'}}");
  stdio_host_send(host, "{'id':2,'method':'execute','params':{'tool':'write_file','path':'f',"
                        "'content':'text\\n'}}\n");
  stdio_host_expect(host, "{'id':2,'result':{'output':'Successfully wrote 5 bytes to f'}}");
  stdio_host_send(host, "{'id':3,'method':'execute','params':{'tool':'read_file','arguments':"
                        "{'path':'f'}}}\n");
  stdio_host_expect(host, "{'id':3,'result':{'output':'text\\n'}}");
  stdio_host_send(host, "{'id':4,'method':'read_file','params':{'path':'none'}}\n");
  expect_error(host, "4", formatted("file not found: %s/none", trial->directory.path));
  stdio_host_send(host, "{'id':5,'method':'execute','params':{'tool':'rm'}}\n");
  expect_error(host, "5", "unknown tool: rm");
  stdio_host_send(host, "{'id':7,'method':'write_file','params':{'path':'empty','content':''}}\n"
                        "{'id':8,'method':'read_file','params':{'path':'empty'}}\n"
                        "{'id':9,'method':'execute','params':{'command':'rm empty'}}\n");
  stdio_host_expect(host, "{'id':7,'result':{'output':'Successfully wrote 0 bytes to empty'}}");
  stdio_host_expect(host, "{'id':8,'result':{'output':''}}");
  expect_output(host, "9", "");
  stdio_host_send(host, "{'id':6,'method':'list_directory','params':{'path':'.'}}\n");
  stdio_host_expect(host, "{'id':6,'result':{'output':'file          5  f\\n'}}");
}

TRIAL_TEST(a_frontend_of_one_tool_serves_no_other) {
  struct stdio_host *host = start(trial, "--tool", "read_file");
  stdio_host_send(host, "{'id':1,'method':'execute','params':{'path':'none'}}\n");
  expect_error(host, "1", formatted("file not found: %s/none", trial->directory.path));
  stdio_host_send(host, "{'id':2,'method':'execute_command','params':{'command':'true'}}\n");
  expect_error(host, "2", "execute_command: this process serves read_file only");
  stdio_host_send(host, "{'id':3,'method':'execute','params':{'tool':'grep','pattern':'x'}}\n");
  expect_error(host, "3", "grep: this process serves read_file only");
  end_input(host);
}

HOST_TEST(a_request_that_cannot_run_is_an_error) {
  static const struct {
    const char *request;
    const char *message;
  } rows[] = {{"'method':'execute'", "command: required"},
              {"'method':'execute','params':null", "command: required"},
              {"'method':'execute','params':[]", "params: expected an object, got an array"},
              {"'method':'dance'",
               "unknown method: dance (there are execute, the tools` names, info, "
               "ping, cancel and shutdown)"},
              {"'params':{}", "method: required"},
              {"'method':null", "method: required"},
              {"'method':'execute','params':{'tool':7}", "tool: expected a string, got a number"},
              {"'method':'execute','params':{'tool':'grep','arguments':[]}",
               "arguments: expected an object, got an array"},
              {"'method':'grep','params':{'method':'other'}",
               "unknown argument `method` (grep takes pattern, path, glob, search_hidden, "
               "output_mode, head_limit, context_before, context_after)"},
              {"'method':'ping','params':{'a':1,'a':2}", "params.a: expected once, got it twice"},
              {"'method':'cancel','params':{}", "id: required"},
              {"'method':7", "method: expected a string, got a number"},
              {"'method':'cancel'", "id: required"},
              {"'method':'execute','params':{'command':'x','args':['y']}",
               "cannot run `x`: No such file or directory"},
              {"'method':'execute','params':{'command':'x','workdir':'none'}",
               "workdir: no such directory: none"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    stdio_host_send(host, formatted("{'id':1,%s}\n", rows[i].request));
    expect_error(host, "1", rows[i].message);
  }
  stdio_host_send(host, "{'id':[1],'method':'ping'}\n");
  expect_error(host, "null", "id: expected a string, a number or null, got an array");
}

TRIAL_TEST(a_command_ends_at_its_timeout) {
  struct stdio_host *host = start(trial, "--max-timeout", "3");
  stdio_host_send(host, "{'id':1,'method':'execute','params':{'command':'echo a; sleep 600.11',"
                        "'timeout':100}}\n");
  stdio_host_expect(host, "{'id':1,'result':{'exitCode':124,'stdout':'a\\n','stderr':'',"
                          "'timedOut':true,'durationSeconds':S}}");
  assert_int_equal(proc_find("sleep 600.11"), 0);
  end_input(host);
}

HOST_TEST(a_client_of_mcp_gets_a_hint_about_the_flag) {
  stdio_host_send(host, "{'jsonrpc':'2.0','id':0,'method':'initialize','params':{}}\n");
  stdio_host_expect(host, "{'jsonrpc':'2.0','id':0,'error':{'code':-32601,'message':"
                          "'this is the stdio frontend; MCP is --mcp'}}");
  stdio_host_send(host, "{'id':0,'method':'initialize'}\n");
  stdio_host_expect(host, "{'id':0,'error':{'code':-32601,'message':"
                          "'this is the stdio frontend; MCP is --mcp'}}");
}

/* --- lines ------------------------------------------------------------------------------------ */

HOST_TEST(invalid_json_is_answered_and_the_next_line_served) {
  static const struct {
    const char *line, *id, *reason;
  } rows[] = {{"garbage", "null", "expected JSON, got invalid or truncated text near byte 0"},
              {"{'id':1,", "1", "expected JSON, got invalid or truncated text near byte 7"},
              {"{'id':1} x", "1", "expected one object, got more behind it at byte 9"},
              {"{'id':1,'id':2,'method':'ping'}", "1", "id: expected once, got it twice"},
              {"{'method':'execute','params':{'command':'\\ud83d'},'id':'r1'}", "'r1'",
               "expected a pair of surrogates, got \\\\ud83d alone at byte 41"},
              {"{'method':'execute','params':{'id':2,'command':'a\tb'},'id':-0.50}", "-0.50",
               "expected JSON, got a raw control character 0x09 at byte 49"},
              {"{'id':'\xFF','method':'ping'}", "null", "expected UTF-8, broken at byte 7"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    stdio_host_send(host, formatted("%s\n{'id':7,'method':'ping'}\n", rows[i].line));
    stdio_host_expect(host, formatted("{'id':%s,'error':{'code':-32700,'message':"
                                      "'Parse error: %s'}}",
                                      rows[i].id, rows[i].reason));
    stdio_host_expect(host, "{'id':7,'result':{}}");
  }
  stdio_host_send(host, "[1,2]\n");
  expect_error(host, "null", "request: expected an object, got an array");
  /* A line that is not JSON is answered in the dialect of the last one. */
  stdio_host_send(host, "{'jsonrpc':'2.0','id':3,'method':'ping'}\ngarbage\n");
  stdio_host_expect(host, "{'jsonrpc':'2.0','id':3,'result':{}}");
  stdio_host_expect(host, "{'jsonrpc':'2.0','id':0,'error':{'code':-32700,'message':'Parse error: "
                          "expected JSON, got invalid or truncated text near byte 0'}}");
  /* The dialect and the id can be read. */
  stdio_host_send(host, "{'id':4,'jsonrpc':'2.0',x\n");
  stdio_host_expect(host, "{'jsonrpc':'2.0','id':4,'error':{'code':-32700,'message':'Parse error: "
                          "expected JSON, got invalid or truncated text near byte 24'}}");
  stdio_host_send(host, "{'jsonrpc':'2.0'}\n"); /* it is not a notification */
  stdio_host_expect(host, "{'jsonrpc':'2.0','id':0,'error':{'code':-32600,'message':'method: "
                          "required'}}");
}

TRIAL_TEST(lines_may_arrive_in_any_pieces) {
  struct stdio_host *host = start(trial, NULL, NULL);
  stdio_host_send(host, "\n\r\n{'id':1,'method':'ping'}\r\n{'id':2,'method':'ping'}\n{'id':3,");
  stdio_host_expect(host, "{'id':1,'result':{}}");
  stdio_host_expect(host, "{'id':2,'result':{}}");
  for (const char *at = quoted("'method':'ping'}\n"); *at != '\0'; at++)
    stdio_host_send_bytes(host, at, 1);
  stdio_host_expect(host, "{'id':3,'result':{}}");
  stdio_host_send(host, "{'id':4,'method':'ping'}"); /* the last line has no newline */
  stdio_host_close_input(host);
  stdio_host_expect(host, "{'id':4,'result':{}}");
  stdio_host_expect_exit(host, 0);
}

/* Larger than the pipes: the agent reads all of it before it prints. */
HOST_TEST(a_large_request_is_read_before_it_is_answered) {
  enum { LENGTH = 4 << 20 };
  char *content = malloc(LENGTH);
  assert_non_null(content);
  memset(content, 'x', LENGTH);
  stdio_host_send(host,
                  "{'id':1,'method':'execute','params':{'command':'cat; cat f >&2; seq 10000',"
                  "'stdin':'");
  stdio_host_send_bytes(host, content, LENGTH);
  stdio_host_send(host, "'}}\n");
  cJSON *answer = cJSON_Parse(stdio_host_line(host));
  assert_non_null(cJSON_GetObjectItem(answer, "result"));
  cJSON_Delete(answer);
  free(content);
}

HOST_TEST(a_line_that_is_too_long_is_answered_once) {
  enum { PIECE = 1 << 20, LIMIT = 64 << 20 };
  char *content = malloc(PIECE);
  assert_non_null(content);
  memset(content, 'x', PIECE);
  stdio_host_send(host, "{'params':{'command':'");
  for (int i = 0; i <= LIMIT / PIECE; i++)
    stdio_host_send_bytes(host, content, PIECE);
  stdio_host_send(host, "'},'id':7}\n{'id':1,'method':'ping'}\n");
  const char *line = stdio_host_line(host);
  assert_non_null(strstr(line, "{\"id\":7,\"error\":{\"code\":-32700,\"message\":\"Parse error: "
                               "expected a line of at most "));
  stdio_host_expect(host, "{'id':1,'result':{}}");
  free(content);
}

TRIAL_TEST(standard_input_may_be_a_regular_file) {
  const char *arguments[] = {"--stdio", NULL};
  trial->host = stdio_host_start(&(struct stdio_host_setup){
      .arguments = arguments,
      .input = "{'id':1,'method':'execute','params':{'command':'echo a'}}\n"
               "{'id':2,'method':'execute','params':{'command':'echo b'}}\n"});
  expect_output(trial->host, "1", "a\\n");
  expect_output(trial->host, "2", "b\\n");
  stdio_host_expect_exit(trial->host, 0);
}

/* --- order ------------------------------------------------------------------------------------ */

TRIAL_TEST(answers_have_the_order_of_the_lines) {
  struct stdio_host *host = start(trial, NULL, NULL);
  send_command(host, "1", "sleep 0.2; echo one >> f; cat f");
  stdio_host_send(host, "garbage\n{'id':2,'method':'dance'}\n{'id':3,'method':'execute'}\n");
  send_command(host, "4", "echo two >> f; cat f");
  stdio_host_close_input(host);
  expect_output(host, "1", "one\\n");
  stdio_host_expect(host, "{'id':null,'error':{'code':-32700,'message':'Parse error: expected "
                          "JSON, got invalid or truncated text near byte 0'}}");
  assert_non_null(strstr(stdio_host_line(host), "unknown method"));
  expect_error(host, "3", "command: required");
  expect_output(host, "4", "one\\ntwo\\n");
  stdio_host_expect_exit(host, 0);
}

HOST_TEST(ping_and_info_are_answered_out_of_order) {
  send_command(host, "1", GATE("go") "echo went");
  send_command(host, "2", "echo second");
  stdio_host_send(host, "{'id':3,'method':'ping'}\n{'id':4,'method':'info'}\n");
  stdio_host_expect(host, "{'id':3,'result':{}}");
  assert_non_null(strstr(stdio_host_line(host), "\"tools\":[{\"name\":\"execute_command\""));
  gate_open(directory_path(&trial->directory, "go"));
  expect_output(host, "1", "went\\n");
  expect_output(host, "2", "second\\n");
}

HOST_TEST(a_cancel_ends_running_and_waiting_calls) {
  send_command(host, "'a'", "sleep 600.12 & wait");
  send_command(host, "2", "touch ran");
  send_command(host, "'2'", "echo third");
  assert_true(proc_wait_for("sleep 600.12", WAIT_BOUND_MS) > 0);
  stdio_host_send(host, "{'id':10,'method':'cancel','params':{'id':2.0}}\n");
  stdio_host_expect(host, "{'id':10,'result':{'cancelled':true}}");
  expect_error(host, "2", "cancelled");
  stdio_host_send(host, "{'id':11,'method':'cancel','params':{'id':'\\u0061'}}\n");
  stdio_host_expect(host, "{'id':11,'result':{'cancelled':true}}");
  expect_error(host, "'a'", "cancelled");
  expect_output(host, "'2'", "third\\n");
  assert_int_equal(proc_find("sleep 600.12"), 0);
  assert_false(directory_has(&trial->directory, "ran"));
  stdio_host_send(host, "{'id':12,'method':'cancel','params':{'id':'a'}}\n");
  stdio_host_expect(host, "{'id':12,'result':{'cancelled':false}}");
}

/* A large ID is not compared with the IDs of all waiting calls. */
TRIAL_TEST(a_cancel_takes_linear_time) {
  enum { CALLS = 3000, LENGTH = 8 * 1024 * 1024 };
  struct stdio_host *host = start(trial, NULL, NULL);
  for (int i = 0; i < CALLS; i++)
    send_command(host, formatted("%d", i), "sleep 600.24");
  char *id = malloc(LENGTH);
  assert_non_null(id);
  memset(id, 'x', LENGTH);
  stdio_host_send(host, "{'id':-1,'method':'cancel','params':{'id':'");
  stdio_host_send_bytes(host, id, LENGTH);
  stdio_host_send(host, "'}}\n");
  free(id);
  stdio_host_expect(host, "{'id':-1,'result':{'cancelled':false}}");
}

TRIAL_TEST(a_shutdown_answers_all_calls_and_itself_last) {
  struct stdio_host *host = start(trial, NULL, NULL);
  send_command(host, "1", "sleep 600.13");
  send_command(host, "2", "touch ran");
  stdio_host_send(host, "garbage\n");
  assert_true(proc_wait_for("sleep 600.13", WAIT_BOUND_MS) > 0);
  stdio_host_send(host, "{'id':3,'method':'shutdown'}\n{'id':4,'method':'ping'}\n");
  expect_error(host, "1", "cancelled");
  expect_error(host, "2", "cancelled");
  assert_non_null(strstr(stdio_host_line(host), "-32700"));
  stdio_host_expect(host, "{'id':3,'result':null}");
  stdio_host_expect_exit(host, 0); /* the input is still open */
  assert_int_equal(proc_find("sleep 600.13"), 0);
  assert_false(directory_has(&trial->directory, "ran"));
}

TRIAL_TEST(a_call_that_runs_at_the_end_of_the_input_is_answered) {
  struct stdio_host *host = start(trial, NULL, NULL);
  send_command(host, "1", GATE("go") "echo went");
  stdio_host_close_input(host);
  gate_open(directory_path(&trial->directory, "go"));
  expect_output(host, "1", "went\\n");
  stdio_host_expect_exit(host, 0);
}

TRIAL_TEST(a_signal_ends_the_process_after_answering_all_calls) {
  struct stdio_host *host = start(trial, NULL, NULL);
  send_command(host, "1", "sleep 600.14");
  send_command(host, "2", "touch ran");
  assert_true(proc_wait_for("sleep 600.14", WAIT_BOUND_MS) > 0);
  stdio_host_kill(host, SIGTERM);
  expect_error(host, "1", "cancelled");
  expect_error(host, "2", "cancelled");
  stdio_host_expect_exit(host, 128 + SIGTERM);
  assert_int_equal(proc_find("sleep 600.14"), 0);
}

TRIAL_TEST(a_host_that_stops_reading_ends_the_process) {
  struct stdio_host *host = start(trial, NULL, NULL);
  send_command(host, "1", "sleep 600.15");
  assert_true(proc_wait_for("sleep 600.15", WAIT_BOUND_MS) > 0);
  stdio_host_close_output(host);
  stdio_host_expect_exit(host, 0);
  assert_int_equal(proc_find("sleep 600.15"), 0);
}

static bool has_exited(void *context) {
  const struct stdio_host *host = context;
  siginfo_t child = {0};
  (void)waitid(P_PID, (id_t)host->pid, &child, WEXITED | WNOWAIT | WNOHANG);
  return child.si_pid == host->pid;
}

/* The answers are more than a pipe holds. */
TRIAL_TEST(the_end_does_not_wait_for_a_host_that_reads_nothing) {
  for (int with_shutdown = 0; with_shutdown < 2; with_shutdown++) {
    struct stdio_host *host = start(trial, NULL, NULL);
    for (int i = 0; i < 50; i++)
      stdio_host_send(host, formatted("{'id':%d,'method':'info'}\n", i));
    if (with_shutdown)
      stdio_host_send(host, "{'id':-1,'method':'shutdown'}\n");
    else
      stdio_host_close_input(host);
    assert_true(wait_until(has_exited, host, WAIT_BOUND_MS));
    stdio_host_close_output(host);
    assert_int_equal(stdio_host_wait(host), 3);
    assert_non_null(strstr(stdio_host_log(host), "bytes of output were not read"));
  }
}

static bool has_last(void *context) {
  return directory_has(context, "last");
}

/* Each answer has about 600 KB; together they are more than twice the limit. */
HOST_TEST(tools_wait_while_their_answers_are_not_read) {
  enum { CALLS = 60 };
  send_command(host, "'first'", "head -c 51200 /dev/zero | tr `\\\\0` `\\\\1` >big");
  expect_output(host, "'first'", "");
  for (int i = 0; i < CALLS; i++)
    send_command(host, formatted("%d", i), "tee /dev/stderr <big");
  send_command(host, "'last'", "touch last");
  assert_false(wait_until(has_last, &trial->directory, 2000));
  for (int i = 0; i < CALLS; i++)
    assert_non_null(strstr(stdio_host_line(host), formatted("{\"id\":%d,\"result\":", i)));
  expect_output(host, "'last'", "");
}

/* Minified JSON or JavaScript, for example, has such a line. */
HOST_TEST(a_file_of_one_long_line_is_edited_in_linear_time) {
  send_command(host, "1", "head -c 1000000 /dev/zero | tr `\\\\0` x | sed `s/xxxxx/axxxx/g` >f");
  expect_output(host, "1", "");
  stdio_host_send(host, "{'jsonrpc':'2.0','id':2,'method':'edit_file','params':{'path':'f','edits':"
                        "[{'old_string':'a','new_string':'b','replace_all':true}]}}\n");
  assert_non_null(strstr(stdio_host_line(host), "@ line 1 (200000 occurrences)"));
}

/* --- progress --------------------------------------------------------------------------------- */

HOST_TEST(progress_arrives_if_it_is_requested) {
  stdio_host_send(host, "{'id':1,'method':'execute','params':{'command':'echo up; " GATE(
                            "go") "','_progress':true}}\n");
  const char *line;
  unsigned percent = 100;
  do /* on a busy machine, a report may come before the command has printed */
    line = stdio_host_line(host);
  while (strstr(line, "\"message\":\"\"") != NULL);
  assert_int_equal(sscanf(line, "{\"id\":1,\"progress\":{\"percent\":%u", &percent), 1);
  assert_in_range(percent, 0, 99);
  assert_non_null(strstr(line, ",\"message\":\"up\"}}"));
  gate_open(directory_path(&trial->directory, "go"));
  while (strstr(line = stdio_host_line(host), "progress") != NULL)
    continue;
  assert_non_null(strstr(line, "\"exitCode\":0"));
}

/* A host that does not expect progress takes any line as the answer. */
TRIAL_TEST(progress_does_not_arrive_otherwise) {
  static const char *const params[] = {"'_progress':false", "'_progress':1", "'timeout':60"};
  for (size_t i = 0; i < 3; i++) {
    struct stdio_host *host = start(trial, NULL, NULL);
    stdio_host_send(host, formatted("{'id':1,'method':'execute','params':{'command':'for i in 1 2 "
                                    "3 4 5 6; do echo $i; sleep 0.1; done',%s}}\n",
                                    params[i]));
    stdio_host_expect(host, "{'id':1,'result':{'exitCode':0,'stdout':'1\\n2\\n3\\n4\\n5\\n6\\n',"
                            "'stderr':'','timedOut':false,'durationSeconds':S}}");
    end_input(host);
  }
  struct stdio_host *host = start(trial, NULL, NULL);
  stdio_host_send(host, "{'jsonrpc':'2.0','id':1,'method':'execute','params':{'command':'echo up; "
                        "sleep 0.6','_progress':true}}\n");
  stdio_host_expect(host, "{'jsonrpc':'2.0','id':1,'result':{'output':'up','success':true,"
                          "'metadata':{'exitCode':0,'timedOut':false,'durationSeconds':S}}}");
  end_input(host);
}

/* --- JSON-RPC: a plugin ----------------------------------------------------------------------- */

static void expect_schema(const cJSON *tool, const char *name) {
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(tool, "name")), name);
  assert_non_null(cJSON_GetStringValue(cJSON_GetObjectItem(tool, "description")));
  const cJSON *schema = cJSON_GetObjectItem(tool, "parameters_schema");
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(schema, "type")), "object");
}

TRIAL_TEST(a_plugin_describes_itself_and_shuts_down) {
  static const char *const names[] = {"execute_command", "read_file", "write_file",    "edit_file",
                                      "list_directory",  "grep",      "directory_tree"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct stdio_host *host =
        start_plugin(trial, formatted("/opt/zenii/plugins/sandbox/%s", names[i]));
    stdio_host_send(host, "{'jsonrpc':'2.0','method':'info','id':1}\n");
    cJSON *answer = cJSON_Parse(stdio_host_line(host));
    const cJSON *result = cJSON_GetObjectItem(answer, "result");
    assert_int_equal(cJSON_GetObjectItem(answer, "id")->valueint, 1);
    expect_schema(result, names[i]);
    assert_non_null(cJSON_GetStringValue(cJSON_GetObjectItem(result, "version")));
    assert_null(cJSON_GetObjectItem(result, "tools"));
    cJSON_Delete(answer);
    stdio_host_send(host, "{'jsonrpc':'2.0','method':'shutdown','id':2}\n");
    stdio_host_expect(host, "{'jsonrpc':'2.0','id':2,'result':null}");
    stdio_host_expect_exit(host, 0);
  }
}

/* The host does not compare ids: the nth line answers the nth request. */
TRIAL_TEST(a_plugin_answers_each_request_with_one_line) {
  static const struct {
    const char *request;
    const char *answer;
  } rows[] = {
      {"'method':'execute','params':{'command':'echo hi'},'id':2",
       "'id':2,'result':{'output':'hi','success':true,'metadata':{'exitCode':0,'timedOut':false,"
       "'durationSeconds':S}}"},
      {"'method':'execute','params':{'command':'echo no; exit 4'},'id':3",
       "'id':3,'result':{'output':'no\\n(exit code: 4)','success':false,'metadata':{'exitCode':4,"
       "'timedOut':false,'durationSeconds':S}}"},
      {"'method':'execute','id':4", "'id':4,'result':{'output':'Error: command: "
                                    "required','success':false}"},
      {"'method':'execute','params':[],'id':5",
       "'id':5,'error':{'code':-32602,'message':'params: expected an object, got an array'}"},
      {"'id':6", "'id':6,'error':{'code':-32600,'message':'method: required'}"},
      {"'method':'execute','params':{'command':'none','args':['x']},'id':7",
       "'id':7,'result':{'output':'Error: cannot run `none`: No such file or "
       "directory','success':false,'metadata':{'exitCode':127,'timedOut':false,"
       "'durationSeconds':S}}"},
      {"'method':'execute','params':{'command':'sleep 600.16','timeout':1},'id':8",
       "'id':8,'result':{'output':'(command timed out)\\n(exit code: 124)','success':false,"
       "'metadata':{'exitCode':124,'timedOut':true,'durationSeconds':S}}"}};
  struct stdio_host *host = start_plugin(trial, "execute_command");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    stdio_host_send(host, formatted("{'jsonrpc':'2.0',%s}\n", rows[i].request));
    stdio_host_expect(host, formatted("{'jsonrpc':'2.0',%s}", rows[i].answer));
  }
  stdio_host_send(host, "{'jsonrpc':'1.0','method':'ping','id':9}\n");
  stdio_host_expect(host, "{'jsonrpc':'2.0','id':9,'error':{'code':-32600,'message':'jsonrpc: "
                          "expected \\'2.0\\''}}");
  stdio_host_send(host, "{'jsonrpc':'2.0','method':'dance','id':11}\n");
  assert_non_null(strstr(stdio_host_line(host), "{\"code\":-32601,\"message\":\"unknown method"));
  stdio_host_send(host, "{'jsonrpc':'2.0','method':'execute','params':{'tool':'x'},'id':12}\n");
  stdio_host_expect(host,
                    "{'jsonrpc':'2.0','id':12,'error':{'code':-32602,'message':'unknown tool: "
                    "x'}}");
  stdio_host_send(host, "{'jsonrpc':'2.0','method':'read_file','params':{'path':'f'},'id':10}\n");
  stdio_host_expect(host, "{'jsonrpc':'2.0','id':10,'error':{'code':-32601,'message':'read_file: "
                          "this process serves execute_command only'}}");
  end_input(host);
}

HOST_TEST(a_notification_has_no_answer) {
  stdio_host_send(host, "{'jsonrpc':'2.0','method':'notifications/initialized'}\n"
                        "{'jsonrpc':'2.0','method':'execute','params':[]}\n"
                        "{'jsonrpc':'2.0','method':'execute','params':{'command':'touch ran'}}\n"
                        "{'jsonrpc':'2.0','method':'execute','params':{'command':'ls'},'id':1}\n");
  stdio_host_expect(host, "{'jsonrpc':'2.0','id':1,'result':{'output':'ran','success':true,"
                          "'metadata':{'exitCode':0,'timedOut':false,'durationSeconds':S}}}");
}

HOST_TEST(a_cancelled_call_of_json_rpc_fails) {
  stdio_host_send(host, "{'jsonrpc':'2.0','method':'execute','params':{'command':'sleep 600.17'},"
                        "'id':1}\n");
  assert_true(proc_wait_for("sleep 600.17", WAIT_BOUND_MS) > 0);
  stdio_host_send(host, "{'jsonrpc':'2.0','method':'cancel','params':{'id':1},'id':2}\n");
  stdio_host_expect(host, "{'jsonrpc':'2.0','id':2,'result':{'cancelled':true}}");
  stdio_host_expect(
      host, "{'jsonrpc':'2.0','id':1,'result':{'output':'Error: cancelled','success':false}}");
}

/* --- one shot: tool-runner -------------------------------------------------------------------- */

/* The host sends neither a newline nor an end, and reads to the end of the output. */
TRIAL_TEST(a_runner_does_not_wait_for_a_newline_or_the_end) {
  static const struct {
    const char *tool;
    const char *input;
    const char *output;
    int exit_code;
  } rows[] = {
      {"execute_command", "{'command':'echo hi'}",
       "{'output':'hi','metadata':{'exitCode':0,'timedOut':false,'durationSeconds':S}}\n", 0},
      {"execute_command", "{'command':'echo }; exit 9'}",
       "{'output':'}\\n(exit code: 9)','metadata':{'exitCode':9,'timedOut':false,"
       "'durationSeconds':S}}\n",
       1},
      {"execute_command",
       "{'command':'printf `\\\\377\\\\303(a`'}", /* the host exits if it reads invalid UTF-8 */
       "{'output':'\xEF\xBF\xBD\xEF\xBF\xBD(a','metadata':{'exitCode':0,'timedOut':false,"
       "'durationSeconds':S}}\n",
       0},
      {"write_file", "{'path':'f','content':'{\\'a\\':[}'}",
       "{'output':'Successfully wrote 7 bytes to f','metadata':{'exitCode':0,'timedOut':false,"
       "'durationSeconds':S}}\n",
       0},
      {"read_file", "{'path':'/none'}",
       "{'output':'Error: file not found: /none','metadata':{'exitCode':1,'timedOut':false,"
       "'durationSeconds':S}}\n",
       1},
      {"read_file", "{}", "{'output':'Error: path: required'}\n", 1},
      {"read_file", "[1]", "{'output':'Error: arguments: expected an object, got an array'}\n", 1},
      {"read_file", "null", "{'output':'Error: arguments: expected an object, got null'}\n", 1},
      {"read_file", "'f'", "{'output':'Error: arguments: expected an object, got a string'}\n", 1},
      {"read_file", "}",
       "{'output':'Error: expected JSON, got invalid or truncated text near byte 0'}\n", 1},
      {"dance", "", "{'output':'Error: unknown tool: dance'}\n", 64}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct stdio_host *host = start_runner(trial, rows[i].tool);
    stdio_host_send(host, rows[i].input);
    stdio_host_expect_rest(host, rows[i].output);
    stdio_host_expect_exit(host, rows[i].exit_code);
  }
}

TRIAL_TEST(a_runner_reads_arguments_in_pieces) {
  struct stdio_host *host = start_runner(trial, "execute_command");
  for (const char *at = quoted("{'command':'echo \\'}{\\''}"); *at != '\0'; at++)
    stdio_host_send_bytes(host, at, 1);
  stdio_host_expect(host, "{'output':'}{','metadata':{'exitCode':0,'timedOut':false,"
                          "'durationSeconds':S}}");
  stdio_host_expect_exit(host, 0);
}

TRIAL_TEST(a_variable_can_name_the_tool_of_a_runner) {
  static const char *const variables[] = {"TOOL_NAME=directory_tree", NULL};
  directory_touch(&trial->directory, "f");
  trial->host = stdio_host_start(&(struct stdio_host_setup){
      .name = "tool-runner", .variables = variables, .directory = trial->directory.path});
  stdio_host_close_input(trial->host);
  const char *line = stdio_host_line(trial->host);
  assert_non_null(strstr(line, "f"));
  assert_non_null(strstr(line, "\"exitCode\":0"));
  stdio_host_expect_exit(trial->host, 0);
}

TRIAL_TEST(a_runner_without_a_name_is_wrong_usage) {
  struct stdio_host *host = start_runner(trial, NULL);
  stdio_host_expect(host, "{'output':'Error: no tool: expected tool-runner NAME, or TOOL_NAME'}");
  stdio_host_expect_exit(host, 64);
}

TRIAL_TEST(a_runner_answers_invalid_arguments) {
  struct stdio_host *host = start_runner(trial, "execute_command");
  stdio_host_send(host, "{'command':");
  stdio_host_close_input(host);
  assert_non_null(strstr(stdio_host_line(host), "{\"output\":\"Error: expected JSON"));
  stdio_host_expect_exit(host, 1);
}

/* --- hosts ------------------------------------------------------------------------------------ */

/* The host sends all arguments of the model's call, also the method. */
TRIAL_TEST(the_method_may_be_repeated_among_the_arguments) {
  struct stdio_host *host = start(trial, "--tool", "execute_command");
  stdio_host_send(host, "{'id':'a','method':'execute_command','params':{'method':"
                        "'execute_command','command':'echo hi'}}\n");
  expect_output(host, "'a'", "hi\\n");
  end_input(host);
}

HOST_TEST(a_command_does_not_share_the_streams_of_the_process) {
  send_command(host, "1", "cat; readlink /proc/self/fd/0; ls /proc/self/fd");
  send_command(host, "2", "echo second");
  expect_output(host, "1", "/dev/null\\n0\\n1\\n2\\n3\\n");
  expect_output(host, "2", "second\\n");
}

/* More answers than the agent holds: it reads the rest of the input later. */
TRIAL_TEST(no_answer_is_lost_behind_a_slow_reader) {
  enum { REQUESTS = 5000, LINE = 40 };
  static char requests[REQUESTS * LINE + 1];
  const char *arguments[] = {"--stdio", "--verbose", NULL};
  size_t length = 0;
  for (int i = 0; i < REQUESTS; i++)
    length += (size_t)snprintf(requests + length, sizeof requests - length,
                               "{'id':%d,'method':'info'}\n", i);
  trial->host =
      stdio_host_start(&(struct stdio_host_setup){.arguments = arguments, .input = requests});
  for (int i = 0; i < REQUESTS; i++) {
    const char *line = stdio_host_line(trial->host);
    assert_non_null(line);
    assert_non_null(strstr(line, formatted("{\"id\":%d,", i)));
  }
  stdio_host_expect_exit(trial->host, 0);
}

TEST_OVERLAP(4)
