/* Times of the end of an agent over HTTP: the idle limit, and how long it waits for readers and
   commands (docs/http.md). The tests overlap, because they mostly wait. */

#include "tests/support/http_steps.h"
#include "tests/support/proc.h"
#include "tests/test.h"

TEST_OVERLAP(8)

#define TRUE_STEP "{\"command\":\"true\"}"
#define KEY "0123456789abcdef"

/* Clocks differ by EARLY_MS. A busy machine is late by at most LATE_MS. */
enum { CYCLE_MS = AGENT_SHORT_IDLE_MS, EARLY_MS = 200, LATE_MS = 2500 };

static void expect_exit_after(struct http_agent *http, int code, int64_t begun_ms,
                              int64_t expected_ms) {
  assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), code);
  int64_t passed_ms = wait_now_ms() - begun_ms;
  print_message("%lld ms\n", (long long)passed_ms);
  assert_true(passed_ms >= expected_ms - EARLY_MS && passed_ms <= expected_ms + LATE_MS);
}

/* --- the idle limit --------------------------------------------------------------------------- */

static void start_idle(struct http_agent *http, const char *const *environment) {
  http->setup.program = agent_process_short_idle();
  http_agent_start(http, (const char *const[]){"--idle-cycles", "1", NULL}, environment);
}

HTTP_TEST(an_agent_that_nobody_uses_exits_with_2) {
  int64_t begun_ms = wait_now_ms();
  start_idle(http, NULL);
  expect_exit_after(http, 2, begun_ms, CYCLE_MS);
}

/* Repeats a request for more than a cycle; the status is 200. Returns when the last one was
   sent. */
static int64_t use_for_a_while(struct http_agent *http, const char *target, const char *fields) {
  const struct timespec pause = {.tv_nsec = 500000000};
  int64_t begun_ms = wait_now_ms(), last_ms;
  do {
    last_ms = wait_now_ms();
    (void)http_steps_ask(http, 200, "GET", target, fields, NULL);
    nanosleep(&pause, NULL);
  } while (wait_now_ms() - begun_ms < CYCLE_MS + 3000);
  return last_ms;
}

HTTP_TEST(each_authorised_request_begins_the_idle_time_again) {
  start_idle(http, NULL);
  int64_t last_ms = use_for_a_while(http, "/steps", NULL);
  expect_exit_after(http, 2, last_ms, CYCLE_MS);
}

HTTP_TEST(health_counts_as_use_if_it_carries_the_key) {
  start_idle(http, (const char *const[]){"SANDBOX_HTTP_KEY=" KEY, NULL});
  int64_t last_ms = use_for_a_while(http, "/health", "Authorization: Bearer " KEY "\r\n");
  expect_exit_after(http, 2, last_ms, CYCLE_MS);
}

/* Repeats a request on one connection until the agent ends, or should have. */
static void use_until_the_end(struct http_agent *http, const char *target, const char *fields) {
  const struct timespec pause = {.tv_nsec = 300000000};
  struct http_client *client = http_agent_connect(http);
  int64_t begun_ms = wait_now_ms();
  while (agent_process_is_running(http->process) && wait_now_ms() - begun_ms < 3 * CYCLE_MS) {
    http_client_send_request(client, "GET", target, fields, NULL);
    if (http_client_response(client)->status != 200)
      break;
    nanosleep(&pause, NULL);
  }
}

HTTP_TEST(health_without_the_key_and_open_connections_do_not_count_as_use) {
  int64_t begun_ms = wait_now_ms();
  start_idle(http, (const char *const[]){"SANDBOX_HTTP_KEY=" KEY, NULL});
  use_until_the_end(http, "/health", NULL);
  expect_exit_after(http, 2, begun_ms, CYCLE_MS);
}

HTTP_TEST(metrics_do_not_count_as_use) {
  int64_t begun_ms = wait_now_ms();
  start_idle(http, (const char *const[]){"SANDBOX_HTTP_KEY=" KEY, NULL});
  use_until_the_end(http, "/metrics", "Authorization: Bearer " KEY "\r\n");
  expect_exit_after(http, 2, begun_ms, CYCLE_MS);
}

HTTP_TEST(an_unread_result_does_not_keep_an_agent) {
  start_idle(http, NULL);
  (void)http_steps_put(http, "1", TRUE_STEP);
  http_steps_wait_state(http, "1", "finished");
  expect_exit_after(http, 2, wait_now_ms(), CYCLE_MS);
}

HTTP_TEST(a_running_step_keeps_an_agent) {
  start_idle(http, NULL);
  (void)http_steps_put(http, "1", "{\"command\":\"sleep\",\"args\":[\"8\"]}");
  int64_t begun_ms = wait_now_ms();
  expect_exit_after(http, 2, begun_ms, 8000 + CYCLE_MS);
}

/* The step waits, because nobody reads the results before it. */
HTTP_TEST(a_waiting_step_and_an_open_stream_keep_an_agent) {
  start_idle(http, NULL);
  http_steps_hold(http, "gate", ":");
  for (int i = 0; i < 64; i++)
    (void)http_steps_put(http, formatted("%d", i), TRUE_STEP);
  struct http_stream *stream = http_stream_open(http, "/steps/63/events", NULL);
  http_agent_open_gate(http, "gate");
  http_steps_wait_state(http, "62", "finished");
  const struct timespec pause = {.tv_sec = 12};
  nanosleep(&pause, NULL);
  assert_true(agent_process_is_running(http->process));
  (void)http_steps_ask(http, 200, "GET", "/steps/0", NULL, NULL);
  free(http_stream_read_all(stream));
  http_stream_free(stream);
  expect_exit_after(http, 2, wait_now_ms(), CYCLE_MS);
}

/* --- shutdown and signals --------------------------------------------------------------------- */

static void leave_unread_result(struct http_agent *http) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "1", TRUE_STEP);
  http_steps_wait_state(http, "1", "finished");
}

HTTP_TEST(a_shutdown_waits_for_readers_for_at_most_10_s) {
  leave_unread_result(http);
  int64_t begun_ms = wait_now_ms();
  (void)http_steps_put(http, "end", "{\"kind\":\"shutdown\"}");
  expect_exit_after(http, 0, begun_ms, 10000);
  assert_int_equal(agent_process_count_log(http->process, "1 results were not read"), 1);
}

HTTP_TEST(a_signal_waits_for_readers_for_at_most_2_s) {
  leave_unread_result(http);
  int64_t begun_ms = wait_now_ms();
  assert_int_equal(kill(agent_process_pid(http->process), SIGTERM), 0);
  expect_exit_after(http, 128 + SIGTERM, begun_ms, 2000);
}

HTTP_TEST(a_stuck_reader_does_not_delay_the_end_by_a_signal) {
  http_agent_start(http, (const char *const[]){"--events-maxlen", "10", NULL}, NULL);
  struct http_stream *stream = http_stream_put(http, "/steps/1", HTTP_NDJSON,
                                               "{\"command\":\"seq\",\"args\":[\"1000000\"]}");
  http_steps_wait_events(http, "1", 500);
  int64_t begun_ms = wait_now_ms();
  assert_int_equal(kill(agent_process_pid(http->process), SIGTERM), 0);
  assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), 128 + SIGTERM);
  assert_true(wait_now_ms() - begun_ms <= 8000);
  while (http_stream_next(stream) != NULL)
    continue;
  assert_false(http_client_is_whole(http_stream_client(stream)));
  http_stream_free(stream);
}

static void start_stubborn(struct http_agent *http, const char *seconds) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(
      http, "1", http_steps_script(formatted("trap '' TERM; : >begun; sleep %s & wait", seconds)));
  http_agent_wait_file(http, "begun");
  assert_true(proc_wait_for(formatted("sleep %s", seconds), WAIT_BOUND_MS) > 0);
}

HTTP_TEST(a_signal_ends_an_agent_within_8_s_although_its_command_ignores_it) {
  start_stubborn(http, "600.531");
  int64_t begun_ms = wait_now_ms();
  assert_int_equal(kill(agent_process_pid(http->process), SIGTERM), 0);
  assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), 128 + SIGTERM);
  int64_t passed_ms = wait_now_ms() - begun_ms;
  print_message("%lld ms\n", (long long)passed_ms);
  assert_true(passed_ms <= 8000);
  assert_true(proc_wait_gone("sleep 600.531", WAIT_BOUND_MS));
}

HTTP_TEST(a_second_signal_ends_an_agent_at_once) {
  start_stubborn(http, "600.532");
  assert_int_equal(kill(agent_process_pid(http->process), SIGTERM), 0);
  agent_process_wait_log(http->process, "stopping");
  int64_t begun_ms = wait_now_ms();
  assert_int_equal(kill(agent_process_pid(http->process), SIGTERM), 0);
  expect_exit_after(http, 128 + SIGTERM, begun_ms, 0);
}

HTTP_TEST(a_cancelled_command_that_ignores_sigterm_is_killed_after_10_s) {
  start_stubborn(http, "600.533");
  int64_t begun_ms = wait_now_ms();
  (void)http_steps_ask(http, 202, "POST", "/steps/1/cancel", NULL, NULL);
  const cJSON *result = http_steps_result(http, "1");
  int64_t passed_ms = wait_now_ms() - begun_ms;
  assert_in_range(passed_ms, 10000 - EARLY_MS, 10000 + LATE_MS);
  assert_string_equal(http_steps_text(result, "errorMessage"), "cancelled: by a cancel step");
}
