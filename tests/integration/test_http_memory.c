/* The memory of an agent over HTTP with 64 connections at their worst, and after many steps. */

#include <sys/socket.h>

#include "tests/support/http_steps.h"
#include "tests/support/proc.h"
#include "tests/test.h"

TEST_OVERLAP(2)

enum {
  CONNECTIONS_MAX = 64,
  STREAMS_MAX = 16,
  LONG_MAX = 48,
  UNSENT_KIB = 256,           /* of output a connection */
  ALL_UNSENT_KIB = 16 * 1024, /* of output, before a list is refused */
  HEADER_KIB = 16,            /* of a request a connection */
  EVENTS_KIB = 8 * 1024,      /* of all steps */
  RESULTS_KIB = 32 * 1024,    /* of all steps */
  RESULT_BYTES = 1000 * 1000, /* of one step */
  SLACK_KIB = 2048            /* of the allocator, and what each agent needs once */
};

static void expect_growth(struct http_agent *http, long before_kib, long most_kib) {
  long peak_kib = proc_status_kib(agent_process_pid(http->process), "VmHWM");
  print_message("%ld KiB more of at most %ld\n", peak_kib - before_kib, most_kib);
  if (agent_process_is_shipped() && peak_kib - before_kib > most_kib)
    fail_msg("%ld KiB more instead of at most %ld", peak_kib - before_kib, most_kib);
}

static bool has_unread(void *context) {
  const struct http_agent *http = context;
  return http_steps_metric((struct http_agent *)http, "sandbox_results_unread") >= 33;
}

/* Puts steps until the results that nobody has read use all of their memory. */
static void fill_results(struct http_agent *http) {
  const char *step =
      http_steps_script(formatted("head -c %d /dev/zero | tr '\\0' r", RESULT_BYTES));
  for (int i = 0; i < 33; i++)
    (void)http_steps_put(http, formatted("%d", i), step);
  if (!wait_until(has_unread, http, WAIT_BOUND_MS))
    fail_msg("only %g results are unread", http_steps_metric(http, "sandbox_results_unread"));
}

static void send_long_header(struct http_client *client) {
  static char text[HEADER_KIB * 1024 - 8];
  memset(text, 'a', sizeof text);
  memcpy(text, "GET /health HTTP/1.1\r\nHost: a\r\nX: ", 34);
  http_client_send_bytes(client, text, sizeof text);
}

/* Clients that read nothing: of streams, of results, and such that do not end their headers. */
HTTP_TEST(memory_is_bounded_with_64_connections_that_read_nothing) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_health(http, "uptimeSeconds");
  long before_kib = http_agent_memory_kib(http);
  fill_results(http);
  for (int i = 0; i < CONNECTIONS_MAX - 1; i++) {
    struct http_client *client = http_agent_connect(http);
    const char *target = formatted("/steps/%d%s", i % 33, i < STREAMS_MAX ? "/events" : "");
    if (i >= LONG_MAX)
      send_long_header(client);
    else
      http_client_send_request(client, "GET", target, i % 2 == 0 ? HTTP_SSE : NULL, NULL);
  }
  assert_int_equal(http_steps_health(http, "unread"), 33);
  expect_growth(http, before_kib,
                RESULTS_KIB + RESULT_BYTES / 1024 + EVENTS_KIB + SLACK_KIB +
                    CONNECTIONS_MAX * (UNSENT_KIB + HEADER_KIB));
}

/* The command waits for them. Its lines are held as events, and for its result. */
HTTP_TEST(memory_is_bounded_with_stuck_readers_of_a_command_that_prints_much) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_health(http, "uptimeSeconds");
  long before_kib = http_agent_memory_kib(http);
  http_steps_hold(http, "gate", ":");
  (void)http_steps_put(http, "1", "{\"command\":\"yes\",\"timeoutSeconds\":2}");
  struct http_stream *streams[STREAMS_MAX];
  for (int i = 0; i < STREAMS_MAX; i++)
    streams[i] = http_stream_open(http, "/steps/1/events", i % 2 == 0 ? HTTP_SSE : HTTP_NDJSON);
  http_agent_open_gate(http, "gate");
  http_steps_wait_state(http, "1", "finished");
  expect_growth(http, before_kib,
                2 * EVENTS_KIB + STREAMS_MAX * (UNSENT_KIB + HEADER_KIB) + SLACK_KIB);
  for (int i = 0; i < STREAMS_MAX; i++)
    http_stream_free(streams[i]);
}

/* Sends the request on many connections, which read only the headers of their responses. Fails the
   test unless some are refused. */
static void fill_with_responses(struct http_agent *http, int count, const char *method,
                                const char *target, const char *body) {
  struct http_client *clients[CONNECTIONS_MAX];
  int refused = 0;
  for (int i = 0; i < count; i++) {
    clients[i] = http_agent_connect(http);
    http_client_send_request(clients[i], method, target, "Content-Type: application/json\r\n",
                             body);
    int status = http_client_begin_response(clients[i])->status;
    assert_true(status == 200 || status == 503);
    refused += status == 503;
  }
  (void)http_steps_health(http, "uptimeSeconds");
  print_message("%d of %d are refused\n", refused, count);
  assert_in_range(refused, 1, count - 1);
}

/* A list with the longest ids and targets. One command has its target. */
HTTP_TEST(lists_that_nobody_reads_use_bounded_memory) {
  enum { STEPS = 32, ID_BYTES = 1000, TARGET_BYTES = 4096, LIST_KIB = STEPS * 6 * 5 };
  struct buffer id = {0}, step = {0};
  for (int i = 0; i < ID_BYTES; i++)
    buffer_add_string(&id, "%01");
  buffer_add_string(&step, "{\"command\":\"");
  for (int i = 0; i < TARGET_BYTES; i++)
    buffer_add_string(&step, "\\u0001");
  buffer_add(&id, "", 1);
  buffer_add(&step, "\"}", sizeof "\"}");
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  for (int i = 0; i < STEPS; i++)
    (void)http_steps_put(http, formatted("%s%04d", id.bytes, i), step.bytes);
  long before_kib = http_agent_memory_kib(http);
  fill_with_responses(http, CONNECTIONS_MAX - 1, "GET", "/steps", NULL);
  expect_growth(http, before_kib, ALL_UNSENT_KIB + LIST_KIB + SLACK_KIB);
  (void)http_steps_ask(http, 202, "POST", "/steps/gate/cancel", NULL, NULL);
  buffer_release(&id);
  buffer_release(&step);
}

HTTP_TEST(batches_whose_answers_nobody_reads_use_bounded_memory) {
  enum { MESSAGES = 100, ANSWERS_KIB = MESSAGES * 8 };
  const char *const arguments[] = {"--mcp", NULL};
  struct buffer batch = {0};
  for (int i = 0; i < MESSAGES; i++)
    buffer_add_format(&batch, "%s{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/list\"}",
                      i == 0 ? "[" : ",", i);
  buffer_add(&batch, "]", sizeof "]");
  http_agent_start(http, arguments, NULL);
  (void)http_steps_health(http, "uptimeSeconds");
  long before_kib = http_agent_memory_kib(http);
  fill_with_responses(http, LONG_MAX, "POST", "/mcp", batch.bytes);
  expect_growth(http, before_kib, ALL_UNSENT_KIB + ANSWERS_KIB + SLACK_KIB);
  buffer_release(&batch);
}

HTTP_TEST(memory_does_not_grow_with_the_number_of_steps) {
  enum { STEPS = 300, RESULTS_MAX = 64 };
  long before_kib = 0;
  http_agent_start(http, NULL, NULL);
  for (int i = 0; i < 2 * STEPS; i++) {
    (void)http_steps_put(http, formatted("%d", i), "{\"command\":\"seq\",\"args\":[\"100\"]}");
    free(http_stream_all(http, formatted("/steps/%d/events", i), NULL));
    if (i == STEPS)
      before_kib = proc_status_kib(agent_process_pid(http->process), "VmHWM");
  }
  expect_growth(http, before_kib, 256);
}
