/* Cancelling steps over HTTP (docs/http.md). */

#include "tests/support/http_steps.h"
#include "tests/support/proc.h"
#include "tests/test.h"

TEST_OVERLAP(3)

#define TRUE_STEP "{\"command\":\"true\"}"
#define BY_CANCEL "cancelled: by a cancel step"

static void expect_cancelled(const cJSON *result) {
  assert_int_equal(http_steps_number(result, "exitCode"), -1);
  assert_string_equal(http_steps_text(result, "errorMessage"), BY_CANCEL);
  assert_string_equal(http_steps_text(cJSON_GetObjectItem(result, "end"), "cause"), "cancelled");
}

HTTP_TEST(a_cancel_ends_the_running_step_with_all_its_processes) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "1",
                       http_steps_script("setsid sleep 600.511 & sleep 600.512 & : >begun; wait"));
  http_agent_wait_file(http, "begun");
  assert_true(proc_wait_for("sleep 600.511", WAIT_BOUND_MS) > 0);
  const cJSON *state = http_steps_ask_json(http, 202, "POST", "/steps/1/cancel", NULL, NULL);
  assert_string_equal(http_steps_text(state, "state"), "running");
  expect_cancelled(http_steps_result(http, "1"));
  assert_int_equal(proc_find("sleep 600.511"), 0);
  assert_int_equal(proc_find("sleep 600.512"), 0);
}

HTTP_TEST(a_cancelled_command_gets_sigterm_first) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "1",
                       http_steps_script("trap 'echo bye; exit' TERM; : >begun; while :; do "
                                         "sleep 600.513 & wait; done"));
  http_agent_wait_file(http, "begun");
  (void)http_steps_ask(http, 202, "POST", "/steps/1/cancel", NULL, NULL);
  char *lines = http_stream_all(http, "/steps/1/events", NULL);
  assert_non_null(strstr(lines, "\"line\":\"bye\""));
  assert_non_null(strstr(lines, BY_CANCEL));
  free(lines);
}

HTTP_TEST(a_waiting_step_gets_its_result_without_having_run) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  (void)http_steps_put(http, "1", http_steps_script(": >ran"));
  (void)http_steps_put(http, "2", TRUE_STEP);
  const cJSON *result = http_steps_ask_json(http, 200, "POST", "/steps/1/cancel", NULL, NULL);
  expect_cancelled(result);
  assert_int_equal(http_steps_number(result, "eventCount"), 0);
  char *lines = http_stream_all(http, "/steps/1/events", NULL);
  assert_string_equal(lines, http_steps_ask(http, 200, "GET", "/steps/1", NULL, NULL));
  free(lines);
  http_agent_open_gate(http, "gate");
  assert_int_equal(http_steps_number(http_steps_result(http, "2"), "exitCode"), 0);
  assert_false(directory_has(&http->directory, "ran"));
}

HTTP_TEST(a_second_cancel_has_no_effect) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "1",
                       http_steps_script("trap 'echo term' TERM; : >begun; mkfifo end 2>/dev/null; "
                                         "while ! [ -e stop ]; do sleep 0.05; done"));
  http_agent_wait_file(http, "begun");
  for (int i = 0; i < 3; i++)
    (void)http_steps_ask(http, 202, "POST", "/steps/1/cancel", NULL, NULL);
  http_steps_wait_events(http, "1", 2);
  directory_touch(&http->directory, "stop");
  const cJSON *result = http_steps_result(http, "1");
  expect_cancelled(result);
  const char *first = http_steps_ask(http, 200, "GET", "/steps/1", NULL, NULL);
  assert_string_equal(http_steps_ask(http, 200, "POST", "/steps/1/cancel", NULL, NULL), first);
}

HTTP_TEST(a_cancel_changes_nothing_about_a_step_that_is_over) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "1", TRUE_STEP);
  const cJSON *result = http_steps_ask_json(http, 200, "POST", "/steps/1/cancel", NULL, NULL);
  assert_int_equal(http_steps_number(result, "exitCode"), 0);
}

HTTP_TEST(the_body_of_a_cancel_is_ignored) {
  static const char *const bodies[] = {"", "{}", "{\"stepId\":\"2\"}", "not JSON", "\n"};
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    const char *id = formatted("%zu", i);
    (void)http_steps_put(http, id, TRUE_STEP);
    expect_cancelled(
        http_steps_ask_json(http, 200, "POST", formatted("/steps/%s/cancel", id), NULL, bodies[i]));
  }
}

HTTP_TEST(a_cancel_overtakes_the_steps_that_wait) {
  enum { WAITING = 64 };
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  for (int i = 0; i < WAITING; i++)
    (void)http_steps_put(http, formatted("%d", i), TRUE_STEP);
  expect_cancelled(http_steps_ask_json(http, 200, "POST", "/steps/63/cancel", NULL, NULL));
  (void)http_steps_ask(http, 202, "POST", "/steps/gate/cancel", NULL, NULL);
  expect_cancelled(http_steps_result(http, "gate"));
  assert_int_equal(http_steps_number(http_steps_result(http, "62"), "exitCode"), 0);
}

HTTP_TEST(a_cancel_does_not_wait_for_a_body_on_another_connection) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "PUT /steps/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n{");
  (void)http_steps_ask(http, 202, "POST", "/steps/gate/cancel", NULL, NULL);
  expect_cancelled(http_steps_result(http, "gate"));
}

HTTP_TEST(those_who_wait_for_a_step_get_the_result_of_its_cancel) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  struct http_stream *waiting = http_stream_put(http, "/steps/1", HTTP_SSE, TRUE_STEP);
  struct http_stream *running = http_stream_open(http, "/steps/gate/events", NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send_request(client, "GET", "/steps/1?wait=60", NULL, NULL);
  (void)http_steps_ask(http, 200, "POST", "/steps/1/cancel", NULL, NULL);
  (void)http_steps_ask(http, 202, "POST", "/steps/gate/cancel", NULL, NULL);
  char *lines[] = {http_stream_read_all(waiting), http_stream_read_all(running)};
  for (int i = 0; i < 2; i++) {
    assert_non_null(strstr(lines[i], BY_CANCEL));
    free(lines[i]);
  }
  const struct http_response *response = http_client_response(client);
  http_agent_expect_status(http, response, 200);
  assert_non_null(strstr(response->body, BY_CANCEL));
  http_stream_free(waiting);
  http_stream_free(running);
}
