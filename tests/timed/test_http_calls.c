/* What `agent --mcp --http` and `agent --stdio --http` promise in seconds. */

#include <signal.h>

#include "tests/support/http_agent.h"
#include "tests/support/machine_clock.h"
#include "tests/support/proc.h"
#include "tests/test.h"

TEST_OVERLAP(2)

/* Of the agent, and what a busy machine may add. */
enum { EVENTS_MS = 10000, SILENCE_MS = 15000, LATE_MS = 3000, END_MS = 3000 };

#define FIELDS "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"

struct moment {
  double timer_ms, machine_ms;
};

static struct moment now(void) {
  return (struct moment){wait_timer_ms(), machine_clock_ms()};
}

/* Fails unless this time has passed, and not much more. */
static void expect_passed(struct moment since, int ms) {
  assert_true(wait_exact_ms() - since.timer_ms >= ms);
  assert_true(machine_clock_ms() - since.machine_ms <= ms + LATE_MS);
}

static void start(struct http_agent *http, const char *mode, const char *concurrency) {
  const char *arguments[] = {mode, "--concurrency", concurrency, NULL};
  http->setup.directory = http->directory.path;
  http_agent_start(http, arguments, NULL);
}

static void call(struct http_client *client, const char *command) {
  http_client_send_request(
      client, "POST", "/mcp", FIELDS,
      quoted(formatted("{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':"
                       "'execute_command','arguments':{'command':'%s'}}}",
                       command)));
}

static void expect_line(struct http_client *client, const char *expected) {
  const char *line = http_client_line(client);
  assert_string_equal(line != NULL ? line : "the end", expected);
}

HTTP_TEST(a_call_of_10_s_becomes_a_stream_with_comments) {
  start(http, "--mcp", "16");
  struct http_client *client = http_agent_connect(http);
  struct moment begun = now();
  call(client, "exec sleep 26");
  const struct http_response *response = http_client_begin_response(client);
  expect_passed(begun, EVENTS_MS);
  http_agent_expect_status(http, response, 200);
  assert_string_equal(http_response_field(response, "Content-Type"), "text/event-stream");
  expect_line(client, ":");
  expect_passed(begun, EVENTS_MS + SILENCE_MS);
  expect_line(client, "");
  expect_line(client, "event: message");
  expect_line(client, quoted("data: {'jsonrpc':'2.0','id':1,'result':{'content':[{'type':'text',"
                             "'text':'(no output)'}],'isError':false}}"));
  expect_line(client, "");
  assert_null(http_client_line(client));
  assert_true(http_client_is_whole(client));
}

/* Requests of JSON-RPC have a deadline of 55 s. */
static void expect_second_deadline(struct http_agent *http) {
  struct http_client *first = http_agent_connect(http), *second = http_agent_connect(http);
  http_client_send_request(
      first, "POST", "/execute", FIELDS,
      quoted("{'params':{'command':': >begun; exec sleep 600','timeout':100}}"));
  http_agent_wait_file(http, "begun");
  http_client_send_request(second, "POST", "/execute", FIELDS,
                           quoted("{'jsonrpc':'2.0','id':1,'method':'execute','params':"
                                  "{'command':'exec sleep 600','timeout':100}}"));
  const struct http_response *response = http_client_response(second);
  http_agent_expect_status(http, response, 200);
  assert_non_null(strstr(response->body, "\"timedOut\":true"));
}

HTTP_TEST(a_call_without_a_deadline_does_not_delay_the_deadline_of_another) {
  start(http, "--stdio", "16");
  expect_second_deadline(http);
}

HTTP_TEST(a_call_is_answered_at_its_deadline_while_it_waits_for_another) {
  start(http, "--stdio", "1");
  expect_second_deadline(http);
}

/* Neither a command that ignores SIGTERM nor a client that does not read delays the end. */
HTTP_TEST(after_a_signal_the_agent_ends_within_3_s) {
  static const char *const rows[][3] = {
      {"--mcp", "/mcp",
       "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'execute_command',"
       "'arguments':{'command':'trap : TERM; : >begun; while :; do sleep 1; done'}}}"},
      {"--stdio", "/execute",
       "{'params':{'command':'trap : TERM; : >begun; while :; do sleep 1; done'}}"}};
  for (size_t i = 0; i < 2; i++) {
    start(http, rows[i][0], "16");
    struct http_client *client = http_agent_connect(http);
    http_client_send_request(client, "POST", rows[i][1], FIELDS, quoted(rows[i][2]));
    http_agent_wait_file(http, "begun");
    (void)unlink(directory_path(&http->directory, "begun"));
    double begun_ms = machine_clock_ms();
    assert_int_equal(kill(agent_process_pid(http->process), SIGTERM), 0);
    assert_int_equal(http_client_response(client)->status, 200);
    assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), 128 + SIGTERM);
    assert_in_range((int)(machine_clock_ms() - begun_ms), 0, END_MS);
  }
}
