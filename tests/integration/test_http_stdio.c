/* `agent --stdio --http`: the requests of --stdio by POST /execute. */

#include <cjson/cJSON.h>
#include <signal.h>
#include <sys/socket.h>

#include "tests/support/gate.h"
#include "tests/support/http_agent.h"
#include "tests/support/proc.h"
#include "tests/support/stdio_host.h"
#include "tests/test.h"

TEST_OVERLAP(4)

enum { LONG_MAX = 48 };

/* A command that sleeps has a timeout that is longer than a test waits. */
#define JSON "Content-Type: application/json\r\n"
#define NDJSON JSON "Accept: application/x-ndjson\r\n"

static void start(struct http_agent *http, const char *first, const char *second) {
  const char *arguments[] = {"--stdio", first, second, NULL};
  http->setup.directory = http->directory.path;
  http_agent_start(http, arguments, NULL);
}

/* Sends a body, which is written as for quoted(). */
static void post(struct http_client *client, const char *body) {
  http_client_send_request(client, "POST", "/execute", JSON, quoted(body));
}

/* A new connection that has sent the body. */
static struct http_client *posted(struct http_agent *http, const char *body) {
  struct http_client *client = http_agent_connect(http);
  post(client, body);
  return client;
}

/* The text without a final newline; a duration in seconds reads as S. */
static const char *normalized(const char *text) {
  static const char name[] = "\"durationSeconds\":";
  char *copy = (char *)(uintptr_t)formatted("%s", text);
  for (char *at = copy; (at = strstr(at, name)) != NULL;) {
    at += sizeof name - 1;
    size_t digits = strspn(at, "0123456789.");
    memmove(at + 1, at + digits, strlen(at + digits) + 1);
    *at = 'S';
  }
  copy[strcspn(copy, "\n")] = '\0';
  return copy;
}

static void expect_response(struct http_agent *http, struct http_client *client, int status,
                            const char *text) {
  const struct http_response *response = http_client_response(client);
  http_agent_expect_status(http, response, status);
  assert_string_equal(normalized(response->body), quoted(text));
  const char *type = http_response_field(response, "Content-Type");
  assert_string_equal(type != NULL ? type : "", *text != '\0' ? "application/json" : "");
}

static void expect_answer(struct http_agent *http, const char *body, const char *text) {
  struct http_client *client = posted(http, body);
  expect_response(http, client, 200, text);
  http_agent_disconnect(http, client);
}

/* Waits until health reports this number of waiting calls. */
struct waiting {
  struct http_agent *http;
  int count;
};

static bool has_waiting(void *context) {
  const struct waiting *query = context;
  struct http_client *client = http_client_connect(query->http->address);
  const struct http_response *response = http_client_request(client, "GET", "/health", NULL, NULL);
  bool matches = strstr(response->body, formatted("\"waiting\":%d}", query->count)) != NULL;
  http_client_free(client);
  return matches;
}

static void wait_for_waiting(struct http_agent *http, int count) {
  if (!wait_until(has_waiting, &(struct waiting){http, count}, WAIT_BOUND_MS))
    agent_process_fail(http->process, "there are not %d waiting calls", count);
}

/* A call that makes the file NAME-begun, and waits at the gate NAME. */
static struct http_client *post_gate(struct http_agent *http, const char *name) {
  return posted(http, formatted("{'id':'%s','params':{'command':': >%s-begun; " GATE("%s") "'}}",
                                name, name, name, name));
}

static void wait_begun(struct http_agent *http, const char *name) {
  http_agent_wait_file(http, formatted("%s-begun", name));
}

#define EMPTY_RESULT "{'exitCode':0,'stdout':'','stderr':'','timedOut':false,'durationSeconds':S}"

/* --- answers ---------------------------------------------------------------------------------- */

/* An agent on standard input and output, in the same directory. */
static struct stdio_host *start_stdio(const struct http_agent *http) {
  const char *arguments[] = {"--stdio", NULL};
  return stdio_host_start(
      &(struct stdio_host_setup){.arguments = arguments, .directory = http->directory.path});
}

/* Fails unless it answers the request with the same bytes. */
static void expect_same(struct stdio_host *host, const char *request,
                        const struct http_response *response) {
  stdio_host_send(host, formatted("%s\n", request));
  const char *line = stdio_host_line(host);
  assert_non_null(line);
  assert_string_equal(normalized(response->body), normalized(line));
}

HTTP_TEST(an_answer_is_that_of_stdio_whatever_its_outcome) {
  static const char *const requests[] = {
      "{'id':'r1','method':'execute','params':{'command':'echo hi'}}",
      "{'id':2,'method':'execute','params':{'command':'printf a; printf b >&2; exit 3'}}",
      "{'id':3,'method':'execute_command','params':{'command':'kill -ABRT $$'}}",
      "{'id':4,'method':'write_file','params':{'path':'f','content':'text\\n'}}",
      "{'id':5,'method':'read_file','params':{'path':'f'}}",
      "{'id':6,'method':'read_file','params':{'path':'none'}}",
      "{'id':7,'method':'grep','params':{'pattern':'te','path':'f'}}",
      "{'id':8,'method':'execute','params':{'tool':'list_directory','path':'.','_progress':true}}",
      "{'id':9,'method':'execute','params':{'command':'echo a; sleep 600','timeout':1}}",
      "{'id':10,'method':'info'}",
      "{'id':null,'method':'ping'}",
      "{'id':'\\u00e9','method':'cancel','params':{'id':5}}",
      "{'id':12,'method':'cancel'}",
      "{'id':13,'method':'dance'}",
      "{'id':14,'method':7}",
      "{'id':[1],'method':'ping'}",
      "{'id':16,'method':'execute','params':[]}",
      "{'id':17,'method':'execute','params':{}}",
      "{'id':18,'method':'initialize'}",
      "7",
      "[]",
      "{'jsonrpc':'2.0','id':19,'method':'execute','params':{'command':'echo hi; exit 3'}}",
      "{'jsonrpc':'2.0','id':20,'method':'read_file','params':{'path':'none'}}",
      "{'jsonrpc':'2.0','id':21,'method':'dance'}",
      "{'jsonrpc':'2.0','id':22,'method':'ping'}",
      "{'jsonrpc':'1.0','id':23,'method':'ping'}"};
  start(http, NULL, NULL);
  struct stdio_host *host = start_stdio(http);
  struct http_client *client = http_agent_connect(http);
  for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
    post(client, requests[i]);
    const struct http_response *response = http_client_response(client);
    http_agent_expect_status(http, response, 200);
    expect_same(host, requests[i], response);
  }
  stdio_host_free(host);
}

HTTP_TEST(without_a_method_the_tool_is_executed_and_without_an_id_the_answer_has_none) {
  start(http, NULL, NULL);
  expect_answer(http, "{'params':{'command':'echo hi'}}",
                "{'result':{'exitCode':0,'stdout':'hi\\n','stderr':'','timedOut':false,"
                "'durationSeconds':S}}");
  expect_answer(http, "{'id':1,'params':{'command':'true'}}", "{'id':1,'result':" EMPTY_RESULT "}");
  expect_answer(http, "{'method':'ping'}", "{'result':{}}");
  expect_answer(
      http, "{'params':{'tool':'read_file','path':'none'}}",
      formatted("{'error':{'code':-1,'message':'file not found: %s/none'}}", http->directory.path));
  expect_answer(http, "{'params':{}}", "{'error':{'code':-1,'message':'command: required'}}");
  expect_answer(http, "{}", "{'error':{'code':-1,'message':'command: required'}}");
  expect_answer(http, "{'jsonrpc':'2.0','id':2,'params':{'command':'echo hi'}}",
                "{'jsonrpc':'2.0','id':2,'result':{'output':'hi','success':true,'metadata':"
                "{'exitCode':0,'timedOut':false,'durationSeconds':S}}}");
}

HTTP_TEST(a_body_that_is_not_json_is_400_with_the_error_of_stdio) {
  static const char *const bodies[] = {"", "x", "{'id':1", "{'id':1,'id':2}", "{'a':1}{'a':1}"};
  start(http, NULL, NULL);
  struct stdio_host *host = start_stdio(http);
  struct http_client *client = http_agent_connect(http);
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    post(client, bodies[i]);
    const struct http_response *response = http_client_response(client);
    http_agent_expect_status(http, response, 400);
    assert_non_null(strstr(response->body, "\"code\":-32700"));
    if (*bodies[i] != '\0') /* an empty line is no request of --stdio */
      expect_same(host, bodies[i], response);
  }
  stdio_host_free(host);
}

HTTP_TEST(a_notification_is_executed_and_has_no_answer) {
  start(http, NULL, NULL);
  struct http_client *client =
      posted(http, "{'jsonrpc':'2.0','method':'execute','params':{'command':': >f'}}");
  expect_response(http, client, 202, "");
  assert_true(directory_has(&http->directory, "f"));
  post(client, "{'jsonrpc':'2.0','method':'dance'}");
  expect_response(http, client, 202, "");
  post(client, "{'jsonrpc':'2.0','method':'ping'}");
  expect_response(http, client, 202, "");
}

HTTP_TEST(only_the_tool_of_the_flag_is_served) {
  start(http, "--tool", "read_file");
  expect_answer(
      http, "{'params':{'path':'none'}}",
      formatted("{'error':{'code':-1,'message':'file not found: %s/none'}}", http->directory.path));
  expect_answer(http, "{'id':1,'method':'grep'}",
                "{'id':1,'error':{'code':-1,'message':'grep: this process serves read_file "
                "only'}}");
}

HTTP_TEST(a_timeout_is_limited_by_the_flag) {
  start(http, "--max-timeout", "1");
  expect_answer(http, "{'params':{'command':'echo a; exec sleep 600','timeout':100}}",
                "{'result':{'exitCode':124,'stdout':'a\\n','stderr':'','timedOut':true,"
                "'durationSeconds':S}}");
}

/* The second call waits behind the first one, which may last longer than its deadline. */
HTTP_TEST(a_deadline_applies_to_each_request) {
  const char *arguments[] = {"--stdio", "--deadline", "2", "--concurrency", "1", NULL};
  http_agent_start(http, arguments, NULL);
  struct http_client *first =
      posted(http, "{'id':1,'params':{'command':'exec sleep 600.21','timeout':100}}");
  struct http_client *second =
      posted(http, "{'id':2,'params':{'command':'exec sleep 600.22','timeout':100}}");
  expect_response(http, first, 200,
                  "{'id':1,'result':{'exitCode':124,'stdout':'','stderr':'','timedOut':true,"
                  "'durationSeconds':S}}");
  const struct http_response *response = http_client_response(second);
  http_agent_expect_status(http, response, 200);
  assert_non_null(strstr(response->body, "{\"id\":2,"));
}

/* --- routes ----------------------------------------------------------------------------------- */

HTTP_TEST(other_routes_methods_and_media_types_are_refused) {
  start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  static const char *const methods[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    http_client_send_request(client, methods[i], "/execute", NULL, NULL);
    const struct http_response *response = strcmp(methods[i], "HEAD") == 0
                                               ? http_client_response_to_head(client)
                                               : http_client_response(client);
    http_agent_expect_status(http, response, 405);
    assert_string_equal(http_response_field(response, "Allow"), "POST");
  }
  http_agent_expect_error(http, http_client_request(client, "POST", "/mcp", JSON, "{}"), 404,
                          "not_found");
  client = http_agent_connect(http);
  http_agent_expect_error(http, http_client_request(client, "PUT", "/steps/1", NULL, "{}"), 404,
                          "not_found");
  client = http_agent_connect(http);
  http_agent_expect_error(
      http, http_client_request(client, "POST", "/execute", "Content-Type: text/plain\r\n", "{}"),
      415, "media_type");
}

HTTP_TEST(the_path_can_be_chosen) {
  start(http, "--http-path", "/v1/predict");
  struct http_client *client = http_agent_connect(http);
  http_client_send_request(client, "POST", "/v1/predict", JSON, "{\"method\":\"ping\"}");
  expect_response(http, client, 200, "{'result':{}}");
  http_agent_expect_error(http, http_client_request(client, "POST", "/execute", JSON, "{}"), 404,
                          "not_found");
}

HTTP_TEST(health_names_the_mode_and_counts_waiting_calls) {
  start(http, "--concurrency", "1");
  struct http_client *client = http_agent_connect(http);
  const struct http_response *response = http_client_request(client, "GET", "/health", NULL, NULL);
  http_agent_expect_status(http, response, 200);
  cJSON *health = cJSON_Parse(response->body);
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(health, "mode")), "stdio");
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(health, "status")), "ok");
  assert_false(cJSON_HasObjectItem(health, "stepInFlight"));
  assert_false(cJSON_HasObjectItem(health, "unread"));
  cJSON_Delete(health);
  (void)post_gate(http, "a");
  wait_begun(http, "a");
  wait_for_waiting(http, 0);
  (void)posted(http, "{'params':{'command':'true'}}");
  wait_for_waiting(http, 1);
  http_agent_open_gate(http, "a");
  wait_for_waiting(http, 0);
}

/* --- calls at the same time ------------------------------------------------------------------- */

HTTP_TEST(calls_run_in_parallel_up_to_the_concurrency_and_others_wait_in_order) {
  start(http, "--concurrency", "2");
  struct http_client *first = post_gate(http, "a"), *second = post_gate(http, "b");
  wait_begun(http, "a");
  wait_begun(http, "b");
  struct http_client *third = post_gate(http, "c");
  wait_for_waiting(http, 1);
  struct http_client *fourth = posted(http, "{'params':{'command':'echo >d'}}");
  wait_for_waiting(http, 2);
  expect_answer(http, "{'method':'ping'}", "{'result':{}}");
  expect_answer(http, "{'params':{}}", "{'error':{'code':-1,'message':'command: required'}}");
  assert_false(directory_has(&http->directory, "c-begun"));
  assert_false(directory_has(&http->directory, "d"));
  http_agent_open_gate(http, "b");
  expect_response(http, second, 200, "{'id':'b','result':" EMPTY_RESULT "}");
  wait_begun(http, "c");
  assert_false(directory_has(&http->directory, "d"));
  http_agent_open_gate(http, "a");
  expect_response(http, first, 200, "{'id':'a','result':" EMPTY_RESULT "}");
  expect_response(http, fourth, 200, "{'result':" EMPTY_RESULT "}");
  http_agent_open_gate(http, "c");
  expect_response(http, third, 200, "{'id':'c','result':" EMPTY_RESULT "}");
}

HTTP_TEST(beyond_48_calls_one_is_busy_and_short_requests_are_served) {
  start(http, NULL, NULL);
  for (int i = 0; i < LONG_MAX; i++)
    (void)posted(http, "{'id':'a','params':{'command':'exec sleep 600.23','timeout':100}}");
  wait_for_waiting(http, LONG_MAX - 16);
  struct http_client *client = posted(http, "{'params':{'command':'true'}}");
  http_agent_expect_error(http, http_client_response(client), 503, "busy");
  expect_answer(http, "{'method':'cancel','params':{'id':'a'}}", "{'result':{'cancelled':true}}");
  for (int i = 0; i < LONG_MAX; i++)
    expect_response(http, http->clients[i], 200,
                    "{'id':'a','error':{'code':-1,'message':'cancelled'}}");
  expect_answer(http, "{'params':{'command':'true'}}", "{'result':" EMPTY_RESULT "}");
}

HTTP_TEST(a_cancel_ends_the_calls_of_all_connections_with_its_id) {
  start(http, "--concurrency", "2");
  struct http_client *first =
      posted(http, "{'id':1,'params':{'command':'exec sleep 600.24','timeout':100}}");
  struct http_client *second =
      posted(http, "{'id':1.0,'params':{'command':'exec sleep 600.24','timeout':100}}");
  (void)proc_wait_for("sleep 600.24", WAIT_BOUND_MS);
  struct http_client *waits =
      posted(http, "{'jsonrpc':'2.0','id':1,'method':'execute','params':{'command':': >f'}}");
  wait_for_waiting(http, 1);
  struct http_client *other = posted(http, "{'id':'1','params':{'command':'true'}}");
  wait_for_waiting(http, 2);
  expect_answer(http, "{'id':2,'method':'cancel','params':{'id':10e-1}}",
                "{'id':2,'result':{'cancelled':true}}");
  expect_response(http, first, 200, "{'id':1,'error':{'code':-1,'message':'cancelled'}}");
  expect_response(http, second, 200, "{'id':1.0,'error':{'code':-1,'message':'cancelled'}}");
  expect_response(
      http, waits, 200,
      "{'jsonrpc':'2.0','id':1,'result':{'output':'Error: cancelled','success':false}}");
  expect_response(http, other, 200, "{'id':'1','result':" EMPTY_RESULT "}");
  assert_false(directory_has(&http->directory, "f"));
  expect_answer(http, "{'method':'cancel','params':{'id':1}}", "{'result':{'cancelled':false}}");
}

/* --- clients that leave ----------------------------------------------------------------------- */

HTTP_TEST(the_call_of_a_client_that_disconnects_is_cancelled) {
  start(http, NULL, NULL);
  struct http_client *client =
      posted(http, "{'params':{'command':'exec sleep 600.25','timeout':100}}");
  (void)proc_wait_for("sleep 600.25", WAIT_BOUND_MS);
  http_agent_disconnect(http, client);
  assert_true(proc_wait_gone("sleep 600.25", WAIT_BOUND_MS));
}

HTTP_TEST(the_call_of_a_client_that_resets_its_connection_is_cancelled) {
  const char *arguments[] = {"--stdio", NULL};
  http_agent_start_tcp(http, arguments, NULL);
  struct http_client *client =
      posted(http, "{'params':{'command':'exec sleep 600.26','timeout':100}}");
  (void)proc_wait_for("sleep 600.26", WAIT_BOUND_MS);
  http_client_reset(client);
  assert_true(proc_wait_gone("sleep 600.26", WAIT_BOUND_MS));
}

/* It still gets the answer. */
HTTP_TEST(the_call_of_a_client_that_closes_its_sending_side_is_cancelled) {
  start(http, NULL, NULL);
  struct http_client *client =
      posted(http, "{'params':{'command':'exec sleep 600.27','timeout':100}}");
  (void)proc_wait_for("sleep 600.27", WAIT_BOUND_MS);
  http_client_end_input(client);
  assert_true(proc_wait_gone("sleep 600.27", WAIT_BOUND_MS));
  expect_response(http, client, 200, "{'error':{'code':-1,'message':'cancelled'}}");
}

HTTP_TEST(a_waiting_call_of_a_client_that_disconnects_is_never_executed) {
  start(http, "--concurrency", "1");
  struct http_client *first = post_gate(http, "a");
  wait_begun(http, "a");
  struct http_client *client = posted(http, "{'params':{'command':': >f'}}");
  wait_for_waiting(http, 1);
  http_agent_disconnect(http, client);
  wait_for_waiting(http, 0);
  http_agent_open_gate(http, "a");
  expect_response(http, first, 200, "{'id':'a','result':" EMPTY_RESULT "}");
  expect_answer(http, "{'params':{'command':'true'}}", "{'result':" EMPTY_RESULT "}");
  assert_false(directory_has(&http->directory, "f"));
}

/* --- progress --------------------------------------------------------------------------------- */

#define SLOW                                                                                       \
  "{\"id\":1,\"params\":{\"command\":\"echo a; : >begun; mkfifo g 2>/dev/null; : "                 \
  "<g\",\"_progress\":true}}"

/* The next line of the body, or "the end". */
static const char *next_line(struct http_client *client) {
  const char *line = http_client_line(client);
  return line != NULL ? line : "the end";
}

HTTP_TEST(with_ndjson_the_body_has_the_lines_of_stdio_and_the_answer_last) {
  start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send_request(client, "POST", "/execute", NDJSON, SLOW);
  const struct http_response *response = http_client_begin_response(client);
  http_agent_expect_status(http, response, 200);
  assert_string_equal(http_response_field(response, "Content-Type"), "application/x-ndjson");
  assert_string_equal(http_response_field(response, "X-Accel-Buffering"), "no");
  const char *line = next_line(client);
  assert_int_equal(strncmp(line, "{\"id\":1,\"progress\":{\"percent\":", 30), 0);
  assert_non_null(strstr(line, "\"message\":\"a\"}}"));
  http_agent_wait_file(http, "begun");
  http_agent_open_gate(http, "g");
  do
    line = next_line(client);
  while (strstr(line, "\"progress\"") != NULL);
  assert_non_null(strstr(line, "{\"id\":1,\"result\":{\"exitCode\":0,\"stdout\":\"a\\n\""));
  assert_null(http_client_line(client));
  assert_true(http_client_is_whole(client));
}

HTTP_TEST(without_ndjson_or_progress_the_body_is_one_answer) {
  static const char fast[] = "{\"params\":{\"command\":\"sleep 0.8\",\"_progress\":true}}";
  static const char silent[] = "{\"params\":{\"command\":\"true\"}}";
  start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send_request(client, "POST", "/execute", JSON, fast);
  expect_response(http, client, 200, "{'result':" EMPTY_RESULT "}");
  http_client_send_request(client, "POST", "/execute", NDJSON, silent);
  expect_response(http, client, 200, "{'result':" EMPTY_RESULT "}");
}

/* --- the end ---------------------------------------------------------------------------------- */

static void expect_exit(struct http_agent *http, int code) {
  assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), code);
  assert_string_equal(agent_process_output(http->process), "");
}

HTTP_TEST(after_a_shutdown_is_answered_the_agent_exits_with_0) {
  start(http, NULL, NULL);
  struct http_client *running =
      posted(http, "{'params':{'command':'exec sleep 600.28','timeout':100}}");
  (void)proc_wait_for("sleep 600.28", WAIT_BOUND_MS);
  struct http_client *client = posted(http, "{'id':1,'method':'shutdown'}");
  expect_response(http, client, 200, "{'id':1,'result':null}");
  expect_response(http, running, 200, "{'error':{'code':-1,'message':'cancelled'}}");
  expect_exit(http, 0);
  assert_int_equal(proc_find("sleep 600.28"), 0);
}

static bool has_input(void *context) {
  return http_client_has_input(context);
}

/* It is larger than the buffer of the socket: in JSON each of its bytes takes six. */
HTTP_TEST(a_response_that_is_being_read_at_a_shutdown_arrives) {
  start(http, NULL, NULL);
  struct http_client *client =
      posted(http, "{'params':{'command':'head -c 50000 /dev/zero | tr `\\\\000` `\\\\001` | "
                   "tee /dev/stderr'}}");
  assert_true(wait_until(has_input, client, WAIT_BOUND_MS));
  expect_answer(http, "{'method':'shutdown'}", "{'result':null}");
  const struct http_response *response = http_client_response(client);
  http_agent_expect_status(http, response, 200);
  assert_true(response->body_length > 12 * 50000);
  expect_exit(http, 0);
}

HTTP_TEST(a_signal_ends_the_calls_which_are_answered) {
  static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    start(http, "--concurrency", "1");
    struct http_client *running =
        posted(http, "{'id':1,'params':{'command':'exec sleep 600.29','timeout':100}}");
    (void)proc_wait_for("sleep 600.29", WAIT_BOUND_MS);
    struct http_client *waits = posted(http, "{'id':2,'params':{'command':'true'}}");
    wait_for_waiting(http, 1);
    assert_int_equal(kill(agent_process_pid(http->process), signals[i]), 0);
    expect_response(http, running, 200, "{'id':1,'error':{'code':-1,'message':'cancelled'}}");
    expect_response(http, waits, 200, "{'id':2,'error':{'code':-1,'message':'cancelled'}}");
    expect_exit(http, 128 + signals[i]);
  }
}

/* The command ignores SIGTERM, so the agent is ending for a while. */
HTTP_TEST(while_the_agent_ends_health_and_calls_are_503) {
  start(http, NULL, NULL);
  (void)posted(http, "{'params':{'command':'trap : TERM; : >begun; while :; do sleep 1; done'}}");
  http_agent_wait_file(http, "begun");
  struct http_client *client = http_agent_connect(http);
  http_agent_expect_status(http, http_client_request(client, "GET", "/health", NULL, NULL), 200);
  assert_int_equal(kill(agent_process_pid(http->process), SIGTERM), 0);
  agent_process_wait_log(http->process, "stopping: SIGTERM");
  const struct http_response *response = http_client_request(client, "GET", "/health", NULL, NULL);
  http_agent_expect_status(http, response, 503);
  assert_non_null(strstr(response->body, "\"status\":\"ending\""));
  post(client, "{'method':'ping'}");
  http_agent_expect_error(http, http_client_response(client), 503, "ending");
  expect_exit(http, 128 + SIGTERM);
}

HTTP_TEST(standard_input_and_output_are_not_used) {
  const char *arguments[] = {"--stdio", "--http",
                             formatted("unix:%s", directory_path(&http->directory, "s")), NULL};
  struct stdio_host *host =
      stdio_host_start(&(struct stdio_host_setup){.arguments = arguments, .in = -1, .out = -1});
  http_agent_wait_file(http, "s");
  struct http_client *client = NULL;
  while (client == NULL)
    client = http_client_try(arguments[2]);
  post(client, "{'params':{'command':'echo hi'}}");
  const struct http_response *response = http_client_response(client);
  assert_int_equal(response->status, 200);
  assert_non_null(strstr(response->body, "\"stdout\":\"hi\\n\""));
  http_client_free(client);
  stdio_host_free(host);
}
