/* A PUT of a step can be repeated at any time: the step runs once in an agent process, and with
   Sandbox-Instance once across processes (docs/http.md). */

#include <sys/socket.h>

#include "tests/support/http_steps.h"
#include "tests/test.h"

TEST_OVERLAP(3)

#define TRUE_STEP "{\"command\":\"true\"}"

/* A step that leaves its id in the file `ran`. */
static const char *mark(void) {
  return http_steps_script("echo $SANDBOX_STEP_ID >>ran");
}

static const char *path_of(const char *id) {
  return formatted("/steps/%s", id);
}

/* --- the table of repeated requests ----------------------------------------------------------- */

HTTP_TEST(a_repeated_put_of_a_waiting_or_running_step_runs_nothing) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  for (int i = 0; i < 3; i++) {
    const cJSON *state = http_steps_put(http, "1", mark());
    assert_string_equal(http_steps_text(state, "state"), "waiting");
    assert_int_equal(http_steps_number(state, "ahead"), 1);
  }
  assert_int_equal(http_steps_health(http, "waiting"), 1);
  http_agent_open_gate(http, "gate");
  (void)http_steps_result(http, "1");
  assert_string_equal(http_steps_file(http, "ran"), "1\n");
}

HTTP_TEST(a_repeated_put_of_a_running_step_is_answered_with_its_state) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", "echo $SANDBOX_STEP_ID >>ran; echo a");
  http_steps_wait_events(http, "1", 2);
  const char *step = http_steps_script("echo $SANDBOX_STEP_ID >>ran; echo a\n: >1-begun; "
                                       "mkfifo 1 2>/dev/null; : <1; ");
  assert_string_equal(http_steps_ask(http, 202, "PUT", "/steps/1", NULL, step),
                      "{\"stepId\":\"1\",\"state\":\"running\",\"ahead\":0,\"lastSeq\":2}\n");
  http_agent_open_gate(http, "1");
  (void)http_steps_result(http, "1");
  assert_string_equal(http_steps_file(http, "ran"), "1\n");
}

HTTP_TEST(a_repeated_put_of_a_step_that_is_over_is_answered_with_its_result) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "1", mark());
  const char *result = http_steps_ask(http, 200, "GET", "/steps/1", NULL, NULL);
  for (int i = 0; i < 3; i++)
    assert_string_equal(http_steps_ask(http, 200, "PUT", "/steps/1", NULL, mark()), result);
  assert_string_equal(http_steps_file(http, "ran"), "1\n");
}

HTTP_TEST(a_repeated_put_can_be_answered_with_the_stream) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  struct http_stream *first = http_stream_put(http, "/steps/1", HTTP_NDJSON, mark());
  struct http_stream *second = http_stream_put(http, "/steps/1", HTTP_SSE, mark());
  struct http_stream *third = http_stream_put(http, "/steps/1?after=0", HTTP_NDJSON, mark());
  http_agent_open_gate(http, "gate");
  char *lines[4] = {http_stream_read_all(first), http_stream_read_all(second),
                    http_stream_read_all(third)};
  struct http_stream *late = http_stream_put(http, "/steps/1", HTTP_NDJSON, mark());
  lines[3] = http_stream_read_all(late);
  for (size_t i = 1; i < sizeof lines / sizeof *lines; i++) {
    assert_string_equal(lines[i], lines[0]);
    free(lines[i]);
  }
  free(lines[0]);
  struct http_stream *rest = http_stream_put(http, "/steps/1?after=1", HTTP_NDJSON, mark());
  assert_non_null(strstr(http_stream_next(rest), "\"seq\":2"));
  assert_string_equal(http_steps_file(http, "ran"), "1\n");
  struct http_stream *const streams[] = {first, second, third, late, rest, NULL};
  for (struct http_stream *const *stream = streams; *stream != NULL; stream++)
    http_stream_free(*stream);
}

static void expect_conflict(struct http_agent *http, const char *id) {
  static const char *const others[] = {"{\"command\":\"false\"}", (TRUE_STEP " "), (" " TRUE_STEP),
                                       "{\"command\":\"truE\"}", "{\"kind\":\"shutdown\"}"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    http_steps_expect_error(http, 409, "conflict", "PUT", path_of(id), others[i]);
}

HTTP_TEST(another_body_under_the_same_id_is_a_conflict_and_is_not_run) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "over", TRUE_STEP);
  http_steps_hold(http, "running", ":");
  (void)http_steps_put(http, "waiting", TRUE_STEP);
  expect_conflict(http, "over");
  expect_conflict(http, "running");
  expect_conflict(http, "waiting");
  http_steps_expect_error(http, 409, "conflict", "PUT", "/steps/over", "");
  http_steps_expect_error(http, 409, "conflict", "PUT", "/steps/over", "{");
  http_agent_open_gate(http, "running");
  assert_int_equal(http_steps_number(http_steps_result(http, "waiting"), "exitCode"), 0);
  assert_int_equal(http_steps_number(http_steps_result(http, "over"), "exitCode"), 0);
  assert_true(agent_process_is_running(http->process));
}

HTTP_TEST(a_step_whose_result_was_dropped_is_not_run_again) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "1", mark());
  (void)http_steps_ask(http, 204, "DELETE", "/steps/1", NULL, NULL);
  http_steps_expect_error(http, 410, "gone", "PUT", "/steps/1", mark());
  http_steps_expect_error(http, 410, "gone", "PUT", "/steps/1", TRUE_STEP);
  http_steps_expect_error(http, 410, "gone", "PUT", "/steps/1", "{");
  (void)http_steps_run(http, "2", TRUE_STEP);
  assert_string_equal(http_steps_file(http, "ran"), "1\n");
}

HTTP_TEST(a_cancelled_step_is_not_run_when_its_put_is_repeated) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  (void)http_steps_put(http, "1", mark());
  (void)http_steps_ask(http, 200, "POST", "/steps/1/cancel", NULL, NULL);
  const char *result = http_steps_ask(http, 200, "PUT", "/steps/1", NULL, mark());
  assert_non_null(strstr(result, "cancelled: by a cancel step"));
  http_agent_open_gate(http, "gate");
  (void)http_steps_run(http, "2", TRUE_STEP);
  assert_string_equal(http_steps_file(http, "ran"), "");
}

HTTP_TEST(several_clients_that_put_the_same_step_at_once_are_all_answered) {
  enum { CLIENTS = 24 };
  struct http_client *clients[CLIENTS];
  http_agent_start(http, NULL, NULL);
  const char *step = mark();
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = http_agent_connect(http);
    http_client_send(clients[i], formatted("PUT /steps/1 HTTP/1.1\r\nHost: a\r\n"
                                           "Content-Length: %zu\r\n\r\n%.*s",
                                           strlen(step), (int)strlen(step) - 1, step));
  }
  for (int i = 0; i < CLIENTS; i++)
    http_client_send(clients[i], step + strlen(step) - 1);
  for (int i = 0; i < CLIENTS; i++) {
    int status = http_client_response(clients[i])->status;
    assert_true(status == 202 || status == 200);
  }
  (void)http_steps_result(http, "1");
  (void)http_steps_run(http, "2", TRUE_STEP);
  assert_string_equal(http_steps_file(http, "ran"), "1\n");
}

/* --- lost connections ------------------------------------------------------------------------- */

/* The step ends with spaces, so that it would be valid if its last bytes were missing. */
static const char *request_of(const char *id, bool is_chunked) {
  const char *step = formatted("%s    ", mark());
  if (!is_chunked)
    return formatted("PUT /steps/%s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s", id,
                     strlen(step), step);
  return formatted("PUT /steps/%s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "1\r\n%.1s\r\n%zx\r\n%s\r\n0\r\n\r\n",
                   id, step, strlen(step) - 1, step + 1);
}

enum loss { CLOSED, RESET, ENDED_INPUT, LOSSES };

/* Sends the beginning of a request; then the connection is lost. */
static void send_cut(struct http_agent *http, const char *request, size_t length, enum loss loss) {
  struct http_client *client = http_client_connect(http->address);
  http_client_send_bytes(client, request, length);
  if (loss == RESET)
    http_client_reset(client);
  if (loss == ENDED_INPUT) {
    http_client_end_input(client);
    http_client_expect_closed(client);
  }
  http_client_free(client);
}

static void repeat_cut_puts(struct http_agent *http, bool is_chunked) {
  const char *expected = "";
  http_agent_start(http, NULL, NULL);
  size_t length = strlen(request_of("100", is_chunked));
  for (size_t cut = 0; cut < length; cut++) {
    const char *id = formatted("%zu", 100 + cut);
    const char *request = request_of(id, is_chunked);
    assert_int_equal(strlen(request), length);
    send_cut(http, request, cut, cut % LOSSES);
    http_steps_expect_error(http, 404, "not_found", "GET", path_of(id), NULL);
    struct http_client *client = http_client_connect(http->address);
    http_client_send(client, request);
    http_agent_expect_status(http, http_client_response(client), 202);
    http_client_free(client);
    (void)http_steps_result(http, id);
    expected = formatted("%s%s\n", expected, id);
  }
  assert_string_equal(http_steps_file(http, "ran"), expected);
}

HTTP_TEST(a_put_that_is_cut_at_any_byte_and_repeated_runs_once) {
  repeat_cut_puts(http, false);
}

HTTP_TEST(a_chunked_put_that_is_cut_at_any_byte_and_repeated_runs_once) {
  repeat_cut_puts(http, true);
}

HTTP_TEST(a_put_that_is_repeated_while_the_first_one_stalls_at_any_byte_runs_once) {
  const char *expected = "";
  http_agent_start(http, NULL, NULL);
  size_t length = strlen(request_of("100", false));
  for (size_t cut = 0; cut < length; cut++) {
    const char *id = formatted("%zu", 100 + cut);
    const char *request = request_of(id, false);
    struct http_client *first = http_client_connect(http->address);
    http_client_send_bytes(first, request, cut);
    struct http_client *second = http_client_connect(http->address);
    http_client_send(second, request);
    http_agent_expect_status(http, http_client_response(second), 202);
    if (cut % 2 == 0)
      (void)http_steps_result(http, id);
    http_client_send(first, request + cut);
    int status = http_client_response(first)->status;
    assert_true(status == 200 || (status == 202 && cut % 2 != 0));
    (void)http_steps_result(http, id);
    expected = formatted("%s%s\n", expected, id);
    http_client_free(first);
    http_client_free(second);
  }
  assert_string_equal(http_steps_file(http, "ran"), expected);
}

/* Reads this many bytes of the response, and resets the connection. Returns false if the response
   ends before. */
static bool read_cut(struct http_agent *http, const char *request, size_t length) {
  char byte;
  struct http_client *client = http_client_connect(http->address);
  http_client_send(client, request);
  http_client_end_input(client);
  bool is_cut = true;
  for (size_t i = 0; i < length && is_cut; i++)
    is_cut = recv(http_client_fd(client), &byte, 1, 0) == 1;
  if (is_cut)
    http_client_reset(client);
  http_client_free(client);
  return is_cut;
}

HTTP_TEST(a_put_whose_response_is_cut_at_any_byte_and_repeated_runs_once) {
  const char *expected = "";
  http_agent_start(http, NULL, NULL);
  bool is_cut = true;
  for (size_t cut = 0; is_cut; cut++) {
    const char *id = formatted("%zu", 100 + cut);
    is_cut = read_cut(http, request_of(id, false), cut);
    struct http_client *client = http_client_connect(http->address);
    http_client_send(client, request_of(id, false));
    int status = http_client_response(client)->status;
    assert_true(status == 200 || status == 202);
    (void)http_steps_result(http, id);
    expected = formatted("%s%s\n", expected, id);
    http_client_free(client);
  }
  assert_string_equal(http_steps_file(http, "ran"), expected);
}

HTTP_TEST(a_step_whose_body_has_arrived_runs_even_if_the_connection_breaks) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  for (int i = 0; i < 30; i++) {
    const char *id = formatted("%d", 100 + i);
    send_cut(http, request_of(id, i % 2), strlen(request_of(id, i % 2)), CLOSED);
    http_steps_wait_state(http, id, "waiting");
  }
  http_agent_open_gate(http, "gate");
  (void)http_steps_result(http, "129");
  const char *expected = "";
  for (int i = 0; i < 30; i++)
    expected = formatted("%s%d\n", expected, 100 + i);
  assert_string_equal(http_steps_file(http, "ran"), expected);
}

/* --- ids that are remembered ------------------------------------------------------------------ */

enum { REMEMBERED = 65536, BATCH = 32 };

/* Puts and cancels steps, so that their ids are known. */
static void use_ids(struct http_client *client, int first, int count) {
  struct buffer text = {0};
  for (int i = first; i < first + count; i++)
    buffer_add_format(&text,
                      "PUT /steps/n%d HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s"
                      "POST /steps/n%d/cancel HTTP/1.1\r\nHost: a\r\n\r\n",
                      i, strlen(TRUE_STEP), TRUE_STEP, i);
  http_client_send_bytes(client, text.bytes, text.length);
  buffer_release(&text);
  for (int i = 0; i < 2 * count; i++)
    assert_int_equal(http_client_response(client)->status, i % 2 == 0 ? 202 : 200);
}

HTTP_TEST(the_last_65536_ids_are_remembered) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "oldest", mark());
  (void)http_steps_ask(http, 204, "DELETE", "/steps/oldest", NULL, NULL);
  http_steps_hold(http, "gate", ":");
  struct http_client *client = http_agent_connect(http);
  /* With these, `oldest` is the 65,536th of the last ids. */
  int used = 0;
  for (int left = REMEMBERED - 2; left > 0; left -= BATCH, used += BATCH)
    use_ids(client, used, left < BATCH ? left : BATCH);
  http_steps_expect_error(http, 410, "gone", "PUT", "/steps/oldest", mark());
  http_steps_expect_error(http, 410, "gone", "GET", "/steps/n0", NULL);
  use_ids(client, used, 1);
  http_steps_expect_error(http, 404, "not_found", "GET", "/steps/oldest", NULL);
  (void)http_steps_put(http, "oldest", mark());
  http_agent_open_gate(http, "gate");
  (void)http_steps_result(http, "oldest");
  assert_string_equal(http_steps_file(http, "ran"), "oldest\noldest\n");
}

/* --- Sandbox-Instance ------------------------------------------------------------------------- */

/* To be freed. */
static char *instance_of(struct http_agent *http) {
  struct http_client *client = http_client_connect(http->address);
  const struct http_response *response = http_client_request(client, "GET", "/nowhere", NULL, NULL);
  http_agent_expect_error(http, response, 404, "not_found");
  char *instance = strdup(http_response_field(response, "Sandbox-Instance"));
  assert_non_null(instance);
  http_client_free(client);
  return instance;
}

/* Sends the request with this Sandbox-Instance. Returns the status. */
static int ask_instance(struct http_agent *http, const char *instance, const char *method,
                        const char *path, const char *body) {
  struct http_client *client = http_client_connect(http->address);
  int status = http_client_request(client, method, path,
                                   formatted("Sandbox-Instance: %s\r\n", instance), body)
                   ->status;
  http_client_free(client);
  return status;
}

HTTP_TEST(every_response_names_the_same_instance) {
  http_agent_start(http, NULL, NULL);
  char *instance = instance_of(http);
  assert_true(strlen(instance) >= 16);
  assert_int_equal(strspn(instance, "0123456789abcdef"), strlen(instance));
  const cJSON *health = http_steps_ask_json(http, 200, "GET", "/health", NULL, NULL);
  assert_string_equal(http_steps_text(health, "instance"), instance);
  char *again = instance_of(http);
  assert_string_equal(again, instance);
  free(again);
  assert_int_equal(ask_instance(http, instance, "PUT", "/steps/1", mark()), 202);
  (void)http_steps_result(http, "1");
  free(instance);
}

HTTP_TEST(a_request_for_another_instance_is_412_and_runs_nothing) {
  static const char *const others[] = {"", "x", "0000000000000000", "*"};
  http_agent_start(http, NULL, NULL);
  char *instance = instance_of(http);
  (void)http_steps_run(http, "0", TRUE_STEP);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    const char *other = others[i];
    assert_int_equal(ask_instance(http, other, "PUT", "/steps/1", mark()), 412);
    assert_int_equal(ask_instance(http, other, "GET", "/steps/0", NULL), 412);
    assert_int_equal(ask_instance(http, other, "GET", "/steps/0/events", NULL), 412);
    assert_int_equal(ask_instance(http, other, "POST", "/steps/0/cancel", NULL), 412);
    assert_int_equal(ask_instance(http, other, "DELETE", "/steps/0", NULL), 412);
    assert_int_equal(ask_instance(http, other, "GET", "/steps", NULL), 412);
    assert_int_equal(ask_instance(http, other, "GET", "/health", NULL), 412);
  }
  assert_int_equal(ask_instance(http, formatted("%sf", instance), "PUT", "/steps/1", mark()), 412);
  http_steps_expect_error(http, 404, "not_found", "GET", "/steps/1", NULL);
  assert_int_equal(ask_instance(http, instance, "GET", "/steps/0", NULL), 200);
  free(instance);
}

HTTP_TEST(the_body_for_another_instance_is_not_read) {
  http_agent_start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "PUT /steps/1 HTTP/1.1\r\nHost: a\r\nSandbox-Instance: 0\r\n"
                           "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n");
  http_agent_expect_error(http, http_client_response(client), 412, "restarted");
  http_client_expect_closed(client);
}

HTTP_TEST(a_retry_with_the_instance_runs_at_most_once_although_the_agent_was_restarted) {
  http_agent_start(http, NULL, NULL);
  char *instance = instance_of(http);
  assert_int_equal(ask_instance(http, instance, "PUT", "/steps/1", mark()), 202);
  (void)http_steps_result(http, "1");
  http_agent_start(http, NULL, NULL);
  char *other = instance_of(http);
  assert_string_not_equal(other, instance);
  free(other);
  assert_int_equal(ask_instance(http, instance, "PUT", "/steps/1", mark()), 412);
  assert_int_equal(ask_instance(http, instance, "GET", "/steps/1", NULL), 412);
  http_steps_expect_error(http, 404, "not_found", "GET", "/steps/1", NULL);
  (void)http_steps_run(http, "2", TRUE_STEP);
  assert_string_equal(http_steps_file(http, "ran"), "1\n");
  free(instance);
}
