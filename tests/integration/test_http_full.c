/* The limits of waiting steps and of results over HTTP (docs/http.md). */

#include <sys/resource.h>
#include <sys/socket.h>

#include "tests/support/http_steps.h"
#include "tests/test.h"

TEST_OVERLAP(3)

enum { WAITING_MAX = 64, RESULTS_MAX = 64 };

#define TRUE_STEP "{\"command\":\"true\"}"

static void expect_refused(struct http_agent *http, const char *word, const char *target) {
  struct http_client *client = http_client_connect(http->address);
  const struct http_response *response =
      http_client_request(client, "PUT", target, NULL, TRUE_STEP);
  http_agent_expect_error(http, response, 429, word);
  const char *after = http_response_field(response, "Retry-After");
  assert_string_equal(after != NULL ? after : "", "1");
  http_client_free(client);
  http_steps_expect_error(http, 404, "not_found", "GET", target, NULL);
}

/* Puts steps with these numbers and reads none of their results. */
static void put_many(struct http_agent *http, int first, int count) {
  for (int i = first; i < first + count; i++)
    (void)http_steps_put(http, formatted("%d", i), TRUE_STEP);
}

struct metric {
  struct http_agent *http;
  const char *sample;
  double value;
};

static bool has_value(void *context) {
  const struct metric *metric = context;
  return http_steps_metric(metric->http, metric->sample) == metric->value;
}

static void wait_metric(struct http_agent *http, const char *sample, double value) {
  if (!wait_until(has_value, &(struct metric){http, sample, value}, WAIT_BOUND_MS))
    fail_msg("%s is %g instead of %g", sample, http_steps_metric(http, sample), value);
}

static void wait_unread(struct http_agent *http, double count) {
  wait_metric(http, "sandbox_results_unread", count);
}

/* --- waiting steps ---------------------------------------------------------------------------- */

HTTP_TEST(sixty_four_steps_wait_and_another_one_is_refused) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  put_many(http, 0, WAITING_MAX);
  expect_refused(http, "full", "/steps/64");
  /* A repeated request takes no more room. */
  (void)http_steps_put(http, "63", TRUE_STEP);
  (void)http_steps_ask(http, 200, "POST", "/steps/10/cancel", NULL, NULL);
  put_many(http, 64, 1);
  expect_refused(http, "full", "/steps/65");
  http_agent_open_gate(http, "gate");
  (void)http_steps_result(http, "0");
  (void)http_steps_result(http, "64");
}

/* With this limit of its memory an agent accepts bodies of an eighth of it, in total. */
enum { MEMORY_LIMIT = 64 << 20, BODIES_MAX = MEMORY_LIMIT / 8 };

static void limit_memory(const void *context) {
  (void)context;
  const struct rlimit limit = {.rlim_cur = MEMORY_LIMIT, .rlim_max = MEMORY_LIMIT};
  if (setrlimit(RLIMIT_DATA, &limit) != 0)
    _exit(AGENT_PROCESS_NO_START);
}

static char *large_step(size_t length) {
  struct buffer text = {0};
  buffer_add_string(&text, "{\"command\":\"wc\",\"args\":[\"-c\"],\"stdin\":\"");
  memset(buffer_space(&text, length), 'x', length);
  text.length += length;
  buffer_add_string(&text, "\"}");
  *buffer_space(&text, 1) = '\0';
  return text.bytes;
}

HTTP_MEMORY_TEST(the_bodies_of_waiting_steps_are_limited_together) {
  http->setup.prepare = limit_memory;
  http_agent_start(http, NULL, NULL);
  char *step = large_step(BODIES_MAX / 2 - 1000);
  http_steps_hold(http, "gate", ":");
  (void)http_steps_put(http, "1", step);
  (void)http_steps_put(http, "2", step);
  struct http_client *client = http_agent_connect(http);
  const struct http_response *response = http_client_request(client, "PUT", "/steps/3", NULL, step);
  assert_true(response->status == 503 || response->status == 429);
  assert_string_equal(http_response_field(response, "Retry-After"), "1");
  http_steps_expect_error(http, 404, "not_found", "GET", "/steps/3", NULL);
  http_agent_open_gate(http, "gate");
  assert_string_equal(http_steps_text(http_steps_result(http, "2"), "outputContent"),
                      formatted("%d\n", BODIES_MAX / 2 - 1000));
  (void)http_steps_run(http, "3", step);
  free(step);
}

/* --- results ---------------------------------------------------------------------------------- */

HTTP_TEST(sixty_four_unread_results_stop_new_steps) {
  http_agent_start(http, NULL, NULL);
  put_many(http, 0, RESULTS_MAX);
  wait_unread(http, RESULTS_MAX);
  expect_refused(http, "unread", "/steps/new");
  assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(
                       http_steps_ask_json(http, 200, "GET", "/steps", NULL, NULL), "steps")),
                   RESULTS_MAX);
  /* A repeated request is answered with its result, which counts as reading it. */
  (void)http_steps_ask(http, 200, "PUT", "/steps/5", NULL, TRUE_STEP);
  assert_int_equal(http_steps_number(http_steps_run(http, "new", TRUE_STEP), "exitCode"), 0);
  for (int i = 0; i < RESULTS_MAX; i++)
    if (i != 5)
      (void)http_steps_ask(http, 200, "GET", formatted("/steps/%d", i), NULL, NULL);
  http_steps_expect_error(http, 410, "gone", "GET", "/steps/5", NULL);
}

/* One step runs and 64 wait, so that the last one finds 64 unread results. */
static void fill_with_results(struct http_agent *http) {
  http_steps_hold(http, "gate", ":");
  put_many(http, 0, WAITING_MAX - 1);
  (void)http_steps_put(http, "last", http_steps_script("echo $SANDBOX_STEP_ID >>ran"));
  http_agent_open_gate(http, "gate");
  wait_unread(http, RESULTS_MAX);
  const cJSON *state = http_steps_ask_json(http, 202, "GET", "/steps/last", NULL, NULL);
  assert_string_equal(http_steps_text(state, "state"), "waiting");
  assert_int_equal(http_steps_number(state, "ahead"), 0);
  assert_int_equal(http_steps_metric(http, "sandbox_steps_running"), 0);
  assert_string_equal(http_steps_file(http, "ran"), "");
}

HTTP_TEST(the_next_step_starts_when_a_result_is_read) {
  http_agent_start(http, NULL, NULL);
  fill_with_results(http);
  (void)http_steps_ask(http, 200, "GET", "/steps/40", NULL, NULL);
  (void)http_steps_result(http, "last");
  assert_string_equal(http_steps_file(http, "ran"), "last\n");
  http_steps_expect_error(http, 410, "gone", "GET", "/steps/40", NULL);
  (void)http_steps_ask(http, 200, "GET", "/steps/0", NULL, NULL);
}

HTTP_TEST(the_next_step_starts_when_a_result_is_deleted) {
  http_agent_start(http, NULL, NULL);
  fill_with_results(http);
  (void)http_steps_ask(http, 204, "DELETE", "/steps/40", NULL, NULL);
  (void)http_steps_result(http, "last");
}

HTTP_TEST(the_next_step_starts_when_a_stream_has_delivered_a_result) {
  http_agent_start(http, NULL, NULL);
  fill_with_results(http);
  free(http_stream_all(http, "/steps/40/events", HTTP_SSE));
  (void)http_steps_result(http, "last");
}

HTTP_TEST(a_step_that_waits_for_room_can_be_cancelled) {
  http_agent_start(http, NULL, NULL);
  fill_with_results(http);
  const cJSON *result = http_steps_ask_json(http, 200, "POST", "/steps/last/cancel", NULL, NULL);
  assert_string_equal(http_steps_text(result, "errorMessage"), "cancelled: by a cancel step");
  for (int i = 0; i < WAITING_MAX - 1; i++)
    (void)http_steps_ask(http, 200, "GET", formatted("/steps/%d", i), NULL, NULL);
  assert_string_equal(http_steps_file(http, "ran"), "");
}

HTTP_TEST(results_that_were_read_are_dropped_oldest_first) {
  enum { STEPS = RESULTS_MAX + 10 };
  http_agent_start(http, NULL, NULL);
  for (int i = 0; i < STEPS; i++)
    (void)http_steps_run(http, formatted("%d", i), TRUE_STEP);
  assert_int_equal(http_steps_metric(http, "sandbox_results_held"), RESULTS_MAX);
  for (int i = 0; i < STEPS - RESULTS_MAX; i++)
    http_steps_expect_error(http, 410, "gone", "GET", formatted("/steps/%d/events", i), NULL);
  for (int i = STEPS - RESULTS_MAX; i < STEPS; i++)
    free(http_stream_all(http, formatted("/steps/%d/events", i), NULL));
}

HTTP_TEST(an_unread_result_is_never_dropped) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "unread", "{\"command\":\"echo\",\"args\":[\"here\"]}");
  for (int i = 0; i < RESULTS_MAX + 10; i++)
    (void)http_steps_run(http, formatted("%d", i), TRUE_STEP);
  http_steps_expect_error(http, 410, "gone", "GET", "/steps/0", NULL);
  assert_string_equal(http_steps_text(http_steps_result(http, "unread"), "outputContent"),
                      "here\n");
}

#define LARGE_RESULT "head -c 3000000 /dev/zero | tr '\\0' r"

HTTP_TEST(a_result_counts_as_read_when_its_last_byte_was_accepted) {
  static char bytes[100000];
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "1", http_steps_script(LARGE_RESULT));
  wait_unread(http, 1);
  for (int i = 0; i < 6; i++) {
    struct http_client *client = http_client_connect(http->address);
    const char *target = i % 2 == 0 ? "/steps/1" : "/steps/1/events?after=3";
    http_client_send_request(client, "GET", target, NULL, NULL);
    assert_true(recv(http_client_fd(client), bytes, sizeof bytes, MSG_WAITALL) == sizeof bytes);
    http_client_reset(client);
    http_client_free(client);
  }
  wait_metric(http, "sandbox_http_connections", 1);
  assert_int_equal(http_steps_health(http, "unread"), 1);
  (void)http_steps_ask(http, 200, "GET", "/steps/1", NULL, NULL);
  assert_int_equal(http_steps_health(http, "unread"), 0);
}

/* The limit is that of bodies; the last result may exceed it. */
HTTP_MEMORY_TEST(the_bytes_of_results_are_limited) {
  http->setup.prepare = limit_memory;
  http_agent_start(http, NULL, NULL);
  const char *step = http_steps_script("head -c 900000 /dev/zero | tr '\\0' r");
  int count = 0;
  do {
    (void)http_steps_put(http, formatted("%d", ++count), step);
    wait_unread(http, count);
  } while (count * 900000 < BODIES_MAX);
  expect_refused(http, "unread", "/steps/new");
  (void)http_steps_ask(http, 200, "GET", "/steps/2", NULL, NULL);
  (void)http_steps_run(http, "new", TRUE_STEP);
  http_steps_expect_error(http, 410, "gone", "GET", "/steps/2", NULL);
  for (int i = 1; i <= count; i += i == 1 ? 2 : 1)
    (void)http_steps_ask(http, 200, "GET", formatted("/steps/%d", i), NULL, NULL);
}

/* A result that is being sent is not dropped. */
HTTP_MEMORY_TEST(a_result_is_held_while_a_client_reads_it) {
  http->setup.prepare = limit_memory;
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "1", http_steps_script(LARGE_RESULT));
  struct http_client *clients[2];
  for (int i = 0; i < 2; i++) {
    clients[i] = http_agent_connect(http);
    http_client_send_request(clients[i], "GET", i == 0 ? "/steps/1" : "/steps/1/events", NULL,
                             NULL);
    http_agent_expect_status(http, http_client_begin_response(clients[i]), 200);
  }
  (void)http_steps_ask(http, 204, "DELETE", "/steps/1", NULL, NULL);
  http_steps_expect_error(http, 410, "gone", "GET", "/steps/1", NULL);
  for (int i = 2; i < 5; i++)
    (void)http_steps_run(http, formatted("%d", i), TRUE_STEP);
  for (int i = 0; i < 2; i++) {
    while (http_client_read_body(clients[i]))
      continue;
    assert_true(http_client_is_whole(clients[i]));
  }
}
