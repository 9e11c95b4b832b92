/* How an agent over HTTP ends: shutdown, signals, and a kill (docs/http.md). Times are in
   tests/timed/test_http_end.c. */

#include "tests/support/http_steps.h"
#include "tests/support/proc.h"
#include "tests/test.h"

TEST_OVERLAP(3)

#define TRUE_STEP "{\"command\":\"true\"}"
#define SHUTDOWN "{\"kind\":\"shutdown\"}"
#define STOPPED "cancelled: the agent was stopped by SIGTERM"

static void send_signal(struct http_agent *http, int number) {
  assert_int_equal(kill(agent_process_pid(http->process), number), 0);
}

static void expect_exit(struct http_agent *http, int code) {
  assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), code);
}

static bool is_ending(void *context) {
  struct http_agent *http = context;
  struct http_client *client = http_client_connect(http->address);
  const struct http_response *response = http_client_request(client, "GET", "/health", NULL, NULL);
  bool is_503 = response->status == 503;
  if (is_503)
    assert_non_null(strstr(response->body, "{\"status\":\"ending\""));
  else
    http_agent_expect_status(http, response, 200);
  http_client_free(client);
  return is_503;
}

static void wait_ending(struct http_agent *http) {
  if (!wait_until(is_ending, http, WAIT_BOUND_MS))
    fail_msg("health does not become 503");
}

/* --- shutdown --------------------------------------------------------------------------------- */

HTTP_TEST(a_shutdown_takes_its_turn_and_the_agent_exits_with_0) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", ":");
  (void)http_steps_put(http, "2", http_steps_script("echo $SANDBOX_STEP_ID >>ran"));
  const cJSON *state = http_steps_put(http, "end", SHUTDOWN);
  assert_string_equal(http_steps_text(state, "state"), "waiting");
  assert_int_equal(http_steps_number(state, "ahead"), 2);
  assert_false(is_ending(http));
  http_agent_open_gate(http, "1");
  (void)http_steps_result(http, "1");
  (void)http_steps_result(http, "2");
  expect_exit(http, 0);
  assert_string_equal(http_steps_file(http, "ran"), "2\n");
}

HTTP_TEST(an_idle_agent_exits_at_once_after_a_shutdown) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "end", SHUTDOWN);
  expect_exit(http, 0);
}

HTTP_TEST(from_the_arrival_of_a_shutdown_on_new_steps_are_refused_and_repeated_ones_are_not) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  (void)http_steps_put(http, "1", TRUE_STEP);
  (void)http_steps_put(http, "end", SHUTDOWN);
  http_steps_expect_error(http, 503, "ending", "PUT", "/steps/2", TRUE_STEP);
  http_steps_expect_error(http, 503, "ending", "PUT", "/steps/end2", SHUTDOWN);
  http_steps_expect_error(http, 404, "not_found", "GET", "/steps/2", NULL);
  (void)http_steps_put(http, "1", TRUE_STEP);
  (void)http_steps_put(http, "end", SHUTDOWN);
  http_agent_open_gate(http, "gate");
  (void)http_steps_result(http, "gate");
  assert_int_equal(http_steps_number(http_steps_result(http, "1"), "exitCode"), 0);
  expect_exit(http, 0);
}

HTTP_TEST(a_shutdown_has_neither_result_nor_stream) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  struct http_client *client = http_agent_connect(http);
  http_agent_expect_status(
      http, http_client_request(client, "PUT", "/steps/end", HTTP_NDJSON, SHUTDOWN), 202);
  const cJSON *state = http_steps_ask_json(http, 202, "GET", "/steps/end", NULL, NULL);
  assert_string_equal(http_steps_text(state, "state"), "waiting");
  int64_t begun_ms = wait_now_ms();
  (void)http_steps_ask(http, 202, "GET", "/steps/end?wait=60", NULL, NULL);
  assert_true(wait_now_ms() - begun_ms < 30000);
  http_steps_expect_error(http, 404, "not_found", "GET", "/steps/end/events", NULL);
  http_steps_expect_error(http, 409, "not_over", "DELETE", "/steps/end", NULL);
  http_steps_expect_error(http, 409, "not_over", "POST", "/steps/end/cancel", NULL);
  http_agent_open_gate(http, "gate");
  (void)http_steps_result(http, "gate");
  expect_exit(http, 0);
}

HTTP_TEST(a_shutdown_needs_no_room_for_a_result) {
  http_agent_start(http, NULL, NULL);
  for (int i = 0; i < 64; i++)
    (void)http_steps_put(http, formatted("%d", i), TRUE_STEP);
  http_steps_wait_state(http, "63", "finished");
  (void)http_steps_put(http, "end", SHUTDOWN);
  wait_ending(http);
  for (int i = 0; i < 64; i++)
    (void)http_steps_ask(http, 204, "DELETE", formatted("/steps/%d", i), NULL, NULL);
  expect_exit(http, 0);
}

HTTP_TEST(after_a_shutdown_unread_results_and_streams_can_be_read) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", "echo hello");
  (void)http_steps_put(http, "2", TRUE_STEP);
  (void)http_steps_put(http, "end", SHUTDOWN);
  http_agent_open_gate(http, "1");
  wait_ending(http);
  assert_true(agent_process_is_running(http->process));
  char *lines = http_stream_all(http, "/steps/1/events", NULL);
  assert_non_null(strstr(lines, "\"hello\""));
  free(lines);
  assert_int_equal(http_steps_number(http_steps_result(http, "2"), "exitCode"), 0);
  expect_exit(http, 0);
}

HTTP_TEST(a_shutdown_ends_background_processes) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "1", http_steps_script("sleep 600.521 >/dev/null 2>&1 & echo up"));
  assert_true(proc_wait_for("sleep 600.521", WAIT_BOUND_MS) > 0);
  (void)http_steps_put(http, "end", SHUTDOWN);
  expect_exit(http, 0);
  assert_int_equal(proc_find("sleep 600.521"), 0);
}

/* --- signals ---------------------------------------------------------------------------------- */

static void expect_stopped(const cJSON *result) {
  assert_int_equal(http_steps_number(result, "exitCode"), -1);
  assert_string_equal(http_steps_text(result, "errorMessage"), STOPPED);
}

HTTP_TEST(sigterm_answers_the_running_step_and_those_that_wait) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", "echo hello");
  (void)http_steps_put(http, "2", http_steps_script(": >ran"));
  (void)http_steps_put(http, "3", http_steps_script(": >ran"));
  struct http_stream *streams[] = {http_stream_open(http, "/steps/1/events", NULL),
                                   http_stream_open(http, "/steps/2/events", HTTP_SSE)};
  struct http_client *client = http_agent_connect(http);
  http_client_send_request(client, "GET", "/steps/3?wait=60", NULL, NULL);
  (void)http_steps_health(http, "waiting");
  send_signal(http, SIGTERM);
  for (int i = 0; i < 2; i++) {
    char *lines = http_stream_read_all(streams[i]);
    assert_non_null(strstr(lines, STOPPED));
    free(lines);
    http_stream_free(streams[i]);
  }
  const struct http_response *response = http_client_response(client);
  http_agent_expect_status(http, response, 200);
  assert_non_null(strstr(response->body, STOPPED));
  expect_exit(http, 128 + SIGTERM);
  assert_false(directory_has(&http->directory, "ran"));
}

HTTP_TEST(each_signal_has_its_name_and_its_exit_code) {
  static const struct {
    int number;
    const char *name;
  } signals[] = {
      {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP"}, {SIGQUIT, "SIGQUIT"}};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    http_agent_start(http, NULL, NULL);
    http_steps_hold(http, "1", ":");
    struct http_stream *stream = http_stream_open(http, "/steps/1/events", NULL);
    send_signal(http, signals[i].number);
    char *lines = http_stream_read_all(stream);
    assert_non_null(
        strstr(lines, formatted("cancelled: the agent was stopped by %s\"", signals[i].name)));
    free(lines);
    http_stream_free(stream);
    expect_exit(http, 128 + signals[i].number);
    assert_int_equal(unlink(directory_path(&http->directory, "1-begun")), 0);
  }
}

/* The command ignores SIGTERM, so that the agent does not end before. */
static void hold_stubbornly(struct http_agent *http, const char *id) {
  (void)http_steps_put(http, id, http_steps_script("trap '' TERM; : >begun; sleep 600.522 & wait"));
  http_agent_wait_file(http, "begun");
  assert_true(proc_wait_for("sleep 600.522", WAIT_BOUND_MS) > 0);
}

HTTP_TEST(after_sigterm_new_steps_are_refused_and_results_can_be_read) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "0", TRUE_STEP);
  http_steps_wait_state(http, "0", "finished");
  hold_stubbornly(http, "1");
  (void)http_steps_put(http, "2", TRUE_STEP);
  send_signal(http, SIGTERM);
  wait_ending(http);
  http_steps_expect_error(http, 503, "ending", "PUT", "/steps/3", TRUE_STEP);
  http_steps_expect_error(http, 503, "ending", "PUT", "/steps/4", SHUTDOWN);
  assert_int_equal(http_steps_number(http_steps_result(http, "0"), "exitCode"), 0);
  expect_stopped(http_steps_result(http, "2"));
  expect_stopped(http_steps_result(http, "1"));
  expect_exit(http, 128 + SIGTERM);
  assert_int_equal(proc_find("sleep 600.522"), 0);
}

HTTP_TEST(a_second_signal_ends_the_agent_at_once) {
  http_agent_start(http, NULL, NULL);
  hold_stubbornly(http, "1");
  send_signal(http, SIGTERM);
  agent_process_wait_log(http->process, "stopping: SIGTERM");
  send_signal(http, SIGINT);
  int code = agent_process_wait(http->process, WAIT_BOUND_MS);
  assert_true(code == 128 + SIGTERM || code == 128 + SIGINT);
  assert_true(proc_wait_gone("sleep 600.522", WAIT_BOUND_MS));
}

HTTP_TEST(sigterm_ends_an_agent_in_which_nothing_runs) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "1", TRUE_STEP);
  struct http_client *idle = http_agent_connect(http);
  http_client_send(idle, "GET /health HTTP/1.1\r\n");
  send_signal(http, SIGTERM);
  expect_exit(http, 128 + SIGTERM);
}

/* --- draining --------------------------------------------------------------------------------- */

HTTP_TEST(drain_seconds_let_the_running_step_finish) {
  http_agent_start(http, (const char *const[]){"--drain-seconds", "600", NULL}, NULL);
  http_steps_hold(http, "1", "echo hello");
  (void)http_steps_put(http, "2", http_steps_script(": >ran"));
  struct http_stream *stream = http_stream_open(http, "/steps/1/events", NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send_request(client, "GET", "/steps/2?wait=60", NULL, NULL);
  (void)http_steps_health(http, "waiting");
  send_signal(http, SIGTERM);
  agent_process_wait_log(http->process, "draining");
  http_steps_expect_error(http, 503, "ending", "PUT", "/steps/3", TRUE_STEP);
  http_agent_open_gate(http, "1");
  char *lines = http_stream_read_all(stream);
  assert_non_null(strstr(lines, "\"exitCode\":0"));
  free(lines);
  http_stream_free(stream);
  const struct http_response *response = http_client_response(client);
  http_agent_expect_status(http, response, 200);
  assert_non_null(strstr(response->body, STOPPED));
  expect_exit(http, 128 + SIGTERM);
  assert_false(directory_has(&http->directory, "ran"));
}

HTTP_TEST(a_cancel_works_while_the_agent_drains) {
  http_agent_start(http, (const char *const[]){"--drain-seconds", "600", NULL}, NULL);
  http_steps_hold(http, "1", ":");
  send_signal(http, SIGTERM);
  agent_process_wait_log(http->process, "draining");
  (void)http_steps_ask(http, 202, "POST", "/steps/1/cancel", NULL, NULL);
  assert_string_equal(http_steps_text(http_steps_result(http, "1"), "errorMessage"),
                      "cancelled: by a cancel step");
  expect_exit(http, 128 + SIGTERM);
}

HTTP_TEST(a_second_sigterm_stops_the_step_for_which_the_agent_drains) {
  http_agent_start(http, (const char *const[]){"--drain-seconds", "600", NULL}, NULL);
  http_steps_hold(http, "1", ":");
  struct http_stream *stream = http_stream_open(http, "/steps/1/events", NULL);
  send_signal(http, SIGTERM);
  agent_process_wait_log(http->process, "draining");
  send_signal(http, SIGTERM);
  char *lines = http_stream_read_all(stream);
  assert_non_null(strstr(lines, STOPPED));
  free(lines);
  http_stream_free(stream);
  expect_exit(http, 128 + SIGTERM);
}

/* --- a kill ----------------------------------------------------------------------------------- */

HTTP_TEST(a_killed_agent_takes_its_commands_along_and_a_new_one_knows_nothing) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "1",
                       http_steps_script("setsid sleep 600.523 & : >begun; sleep 600.524"));
  http_agent_wait_file(http, "begun");
  assert_true(proc_wait_for("sleep 600.523", WAIT_BOUND_MS) > 0);
  struct http_stream *stream = http_stream_open(http, "/steps/1/events", NULL);
  struct http_client *client = http_agent_connect(http);
  const struct http_response *response = http_client_request(client, "GET", "/health", NULL, NULL);
  const char *field =
      formatted("Sandbox-Instance: %s\r\n", http_response_field(response, "Sandbox-Instance"));
  send_signal(http, SIGKILL);
  expect_exit(http, -SIGKILL);
  assert_true(proc_wait_gone("sleep 600.523", WAIT_BOUND_MS));
  assert_true(proc_wait_gone("sleep 600.524", WAIT_BOUND_MS));
  while (http_stream_next(stream) != NULL)
    continue;
  assert_false(http_client_is_whole(http_stream_client(stream)));
  http_client_expect_closed(client);
  assert_null(http_client_try(http->address));
  http_stream_free(stream);
  http_agent_start(http, NULL, NULL);
  client = http_agent_connect(http);
  http_agent_expect_error(http, http_client_request(client, "GET", "/steps/1", field, NULL), 412,
                          "restarted");
  http_agent_expect_error(http, http_client_request(client, "GET", "/steps/1", NULL, NULL), 404,
                          "not_found");
}

HTTP_TEST(the_socket_file_is_removed_at_the_end) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "end", SHUTDOWN);
  expect_exit(http, 0);
  assert_false(directory_has(&http->directory, "agent.sock"));
}
