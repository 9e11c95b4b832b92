/* What `agent --http` accepts as a request, byte by byte: tests/support/http_rows.c has the rows.
   After a malformed one nothing is read as a request: each is followed by a request that would
   leave a step and a file. */

#include <sys/socket.h>

#include "tests/support/gate.h"
#include "tests/support/http_agent.h"
#include "tests/support/http_rows.h"
#include "tests/test.h"

TEST_OVERLAP(4)

/* The whole row at once, or each byte by itself. */
enum delivery { AT_ONCE, BYTEWISE };

static bool deliver(struct http_client *client, const char *bytes, size_t length,
                    enum delivery delivery) {
  return delivery == AT_ONCE ? http_client_offer(client, bytes, length)
                             : http_client_offer_bytewise(client, bytes, length);
}

static const struct http_response *read_response(struct http_client *client,
                                                 const struct http_row *row) {
  bool is_to_head = strncmp(row->bytes, "HEAD ", 5) == 0;
  return is_to_head ? http_client_response_to_head(client) : http_client_response(client);
}

/* --- rejected --------------------------------------------------------------------------------- */

/* Returns what is wrong; NULL: the row was rejected, and nothing else was done. */
static const char *try_rejected(struct http_agent *http, const struct http_row *row,
                                enum delivery delivery) {
  struct http_client *client = http_agent_connect(http);
  struct buffer bytes = {0};
  buffer_add(&bytes, row->bytes, row->length);
  buffer_add_string(&bytes, HTTP_ROW_FOLLOWER);
  (void)deliver(client, bytes.bytes, bytes.length, delivery); /* the agent may close before */
  buffer_release(&bytes);
  const struct http_response *response = read_response(client, row);
  const char *word =
      row->status != 400 || strncmp(row->bytes, "HEAD ", 5) == 0 ? NULL : "malformed";
  const char *fault = http_agent_find_fault(response, row->status, word);
  const char *connection = http_response_field(response, "Connection");
  if (fault == NULL && (connection == NULL || strcmp(connection, "close") != 0))
    fault = "no Connection: close";
  if (fault == NULL)
    http_client_expect_closed(client);
  http_agent_disconnect(http, client);
  char *steps = http_agent_list_steps(http);
  if (fault == NULL && strcmp(steps, "{\"steps\":[]}") != 0)
    fault = formatted("there are steps: %s", steps);
  if (fault == NULL && directory_has(&http->directory, HTTP_ROW_FILE))
    fault = "a step was run";
  free(steps);
  return fault;
}

static void expect_rejected(struct http_agent *http, enum http_part part, enum delivery delivery) {
  int rows = 0, faults = 0;
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < http_rejected_row_count; i++) {
    const struct http_row *row = &http_rejected_rows[i];
    if (row->part != part)
      continue;
    const char *fault = try_rejected(http, row, delivery);
    rows++;
    faults += fault != NULL;
    if (fault != NULL)
      print_message("%s: %s\n", row->name, fault);
  }
  assert_true(rows > 0);
  if (faults > 0)
    fail_msg("%d of %d rows", faults, rows);
}

#define REJECTED_TESTS(PART, NAME)                                                                 \
  HTTP_TEST(NAME##_is_rejected) {                                                                  \
    expect_rejected(http, PART, AT_ONCE);                                                          \
  }                                                                                                \
  HTTP_TEST(NAME##_that_arrives_byte_by_byte_is_rejected) {                                        \
    expect_rejected(http, PART, BYTEWISE);                                                         \
  }

REJECTED_TESTS(HTTP_LINES, a_header_with_other_line_ends_or_control_characters)
REJECTED_TESTS(HTTP_REQUEST_LINE, a_malformed_request_line)
REJECTED_TESTS(HTTP_FIELDS, a_malformed_header_field)
REJECTED_TESTS(HTTP_HOST, a_missing_or_malformed_host)
REJECTED_TESTS(HTTP_CONTENT_LENGTH, a_content_length_other_than_one_number)
REJECTED_TESTS(HTTP_TRANSFER_ENCODING, a_transfer_encoding_other_than_chunked)
REJECTED_TESTS(HTTP_CHUNKS, a_malformed_chunk)
REJECTED_TESTS(HTTP_PATH, an_ambiguous_path)
REJECTED_TESTS(HTTP_BODY, a_body_where_none_is_allowed)

/* The bytes 0 to 31 without tab, LF and CR, and 127. */
HTTP_TEST(each_control_character_in_a_value_is_rejected) {
  http_agent_start(http, NULL, NULL);
  for (int byte = 0; byte < 128; byte = byte == 31 ? 127 : byte + 1) {
    char text[] = "GET /health HTTP/1.1\r\nHost: a\r\nX: b_c\r\n\r\n" HTTP_ROW_FOLLOWER;
    if (byte == '\t' || byte == '\n' || byte == '\r')
      continue;
    *strchr(text, '_') = (char)byte;
    const struct http_row row = {HTTP_LINES, 400, "", text, sizeof text - 1};
    const char *fault = try_rejected(http, &row, AT_ONCE);
    if (fault != NULL)
      fail_msg("%d: %s", byte, fault);
  }
}

/* A proxy that reads the row in another way than the agent must get nothing else but the error,
   also if the rest arrives later. */
HTTP_TEST(a_request_that_arrives_after_the_error_is_not_served) {
  http_agent_start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "GET  /health HTTP/1.1\r\nHost: a\r\n\r\n");
  http_agent_expect_error(http, http_client_response(client), 400, "malformed");
  (void)http_client_offer(client, HTTP_ROW_FOLLOWER, strlen(HTTP_ROW_FOLLOWER));
  http_client_expect_closed(client);
  http_agent_expect_no_step(http);
}

HTTP_TEST(an_error_does_not_repeat_the_request) {
  static const char *const texts[] = {
      "GET /marker HTTP/1.1\r\nHost: marker\r\nX: marker\r\n\r\n",
      "GET /marker/%zz HTTP/1.1\r\nHost: marker\r\nX: marker\r\n\r\n",
      "marker /health HTTP/1.1\r\nHost: marker\r\nX: marker\r\n\r\n",
      "GET /steps/marker?after=marker HTTP/1.1\r\nHost: marker\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: marker marker\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: marker\r\nmarker\r\n\r\n",
      "PUT /steps/marker HTTP/1.1\r\nHost: a\r\nContent-Length: marker\r\n\r\n",
      "PUT /steps/marker HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: marker\r\n\r\n",
      "PUT /steps/marker HTTP/1.1\r\nHost: a\r\nExpect: marker\r\nContent-Length: 1\r\n\r\n",
  };
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct http_client *client = http_agent_connect(http);
    http_client_send(client, texts[i]);
    const struct http_response *response = http_client_response(client);
    assert_in_range(response->status, 400, 499);
    if (strstr(response->head, "marker") != NULL || strstr(response->body, "marker") != NULL)
      fail_msg("%s%s%s", texts[i], response->head, response->body);
    http_agent_disconnect(http, client);
  }
}

/* --- accepted --------------------------------------------------------------------------------- */

/* The connection stays open: a request on it is answered. */
static const char *try_accepted(struct http_agent *http, const struct http_row *row,
                                enum delivery delivery) {
  struct http_client *client = http_agent_connect(http);
  const char *fault = NULL;
  if (!deliver(client, row->bytes, row->length, delivery))
    fault = "the connection was closed";
  const struct http_response *response = read_response(client, row);
  if (fault == NULL)
    fault = http_agent_find_fault(response, row->status, NULL);
  if (fault == NULL) {
    http_client_send(client, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    fault = http_agent_find_fault(http_client_response(client), 200, NULL);
  }
  http_agent_disconnect(http, client);
  return fault;
}

static void expect_accepted(struct http_agent *http, enum delivery delivery) {
  int faults = 0;
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < http_accepted_row_count; i++) {
    const char *fault = try_accepted(http, &http_accepted_rows[i], delivery);
    faults += fault != NULL;
    if (fault != NULL)
      print_message("%s: %s\n", http_accepted_rows[i].name, fault);
  }
  if (faults > 0)
    fail_msg("%d of %zu rows", faults, http_accepted_row_count);
  http_agent_wait_file(http, HTTP_ROW_FILE);
}

HTTP_TEST(each_form_that_clients_use_is_accepted) {
  expect_accepted(http, AT_ONCE);
}

HTTP_TEST(each_form_that_clients_use_is_accepted_byte_by_byte) {
  expect_accepted(http, BYTEWISE);
}

/* nginx uses HTTP/1.0 for its upstreams by default. */
HTTP_TEST(a_request_of_http_1_0_is_served_and_the_connection_closed) {
  static const char *const texts[] = {
      "GET /health HTTP/1.0\r\n\r\n",
      "GET /health HTTP/1.0\r\nHost: a\r\n\r\n",
      "GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
      "\r\nGET /health HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
  };
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct http_client *client = http_agent_connect(http);
    http_client_send(client, formatted("%s" HTTP_ROW_FOLLOWER, texts[i]));
    http_agent_expect_status(http, http_client_response(client), 200);
    http_client_expect_closed(client);
  }
  http_agent_expect_no_step(http);
}

HTTP_TEST(a_body_of_http_1_0_is_read) {
  http_agent_start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "PUT /steps/1 HTTP/1.0\r\nContent-Length: " HTTP_ROW_STEP_LENGTH
                           "\r\nExpect: 100-continue\r\n\r\n" HTTP_ROW_STEP);
  http_agent_expect_status(http, http_client_response(client), 202);
  http_client_expect_closed(client);
  http_agent_wait_file(http, HTTP_ROW_FILE);
}

/* A reader of HTTP/1.0 does not know chunks. */
HTTP_TEST(a_stream_of_http_1_0_ends_with_the_connection) {
  http_agent_start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "PUT /steps/1 HTTP/1.0\r\nAccept: application/x-ndjson\r\n"
                           "Content-Length: " HTTP_ROW_STEP_LENGTH "\r\n\r\n" HTTP_ROW_STEP);
  const struct http_response *response = http_client_response(client);
  http_agent_expect_status(http, response, 200);
  assert_false(response->is_chunked);
  assert_null(http_response_field(response, "Content-Length"));
  assert_non_null(strstr(response->body, "\"exitCode\":0"));
}

HTTP_TEST(connection_close_closes_after_the_response) {
  static const char *const values[] = {"close", "Close", "keep-alive, close", "foo , CLOSE ,bar"};
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    struct http_client *client = http_agent_connect(http);
    http_client_send(
        client,
        formatted("GET /health HTTP/1.1\r\nHost: a\r\nConnection: %s\r\n\r\n" HTTP_ROW_FOLLOWER,
                  values[i]));
    const struct http_response *response = http_client_response(client);
    http_agent_expect_status(http, response, 200);
    assert_string_equal(http_response_field(response, "Connection"), "close");
    http_client_expect_closed(client);
  }
  http_agent_expect_no_step(http);
}

/* --- Expect ----------------------------------------------------------------------------------- */

HTTP_TEST(a_client_that_waits_for_100_continue_gets_it) {
  http_agent_start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "PUT /steps/1 HTTP/1.1\r\nHost: a\r\nexpect: 100-Continue\r\n"
                           "Content-Length: " HTTP_ROW_STEP_LENGTH "\r\n\r\n");
  assert_int_equal(http_client_response(client)->status, 100);
  http_client_send(client, HTTP_ROW_STEP);
  http_agent_expect_status(http, http_client_response(client), 202);
  http_agent_wait_file(http, HTTP_ROW_FILE);
}

HTTP_TEST(a_request_that_is_refused_gets_no_100_continue) {
  http_agent_start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "PUT /nowhere HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                           "Content-Length: " HTTP_ROW_STEP_LENGTH "\r\n\r\n");
  http_agent_expect_error(http, http_client_response(client), 404, "not_found");
  http_client_expect_closed(client);
}

HTTP_TEST(another_expectation_is_417_and_nothing_is_run) {
  static const char *const values[] = {
      "", "100", "100-continue, a", "a, 100-continue", "200-ok", "100-continue;a=b"};
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    struct http_client *client = http_agent_connect(http);
    http_client_send_request(client, "PUT", "/steps/y", formatted("Expect: %s\r\n", values[i]),
                             HTTP_ROW_STEP);
    (void)http_client_offer(client, HTTP_ROW_FOLLOWER, strlen(HTTP_ROW_FOLLOWER));
    http_agent_expect_status(http, http_client_response(client), 417);
    http_client_expect_closed(client);
  }
  http_agent_expect_no_step(http);
}

/* --- connections ------------------------------------------------------------------------------ */

HTTP_TEST(requests_that_arrive_together_are_answered_in_order) {
  enum { REQUESTS = 300 };
  http_agent_start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  struct buffer text = {0};
  for (int i = 0; i < REQUESTS; i++)
    buffer_add_string(&text, i % 3 == 0   ? "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
                             : i % 3 == 1 ? "GET /steps/unknown HTTP/1.1\r\nHost: a\r\n\r\n"
                                          : "GET /steps HTTP/1.1\r\nHost: a\r\n\r\n");
  http_client_send_bytes(client, text.bytes, text.length);
  buffer_release(&text);
  for (int i = 0; i < REQUESTS; i++)
    http_agent_expect_status(http, http_client_response(client), i % 3 == 1 ? 404 : 200);
  http_client_send(client, "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  http_agent_expect_status(http, http_client_response(client), 200);
  http_client_expect_closed(client);
}

HTTP_TEST(a_request_is_not_read_before_the_one_in_front_of_it_is_answered) {
  http_agent_start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http), *other = http_agent_connect(http);
  http_agent_put_gate(http, "1", "gate");
  http_client_send(client,
                   "GET /steps/1?wait=60 HTTP/1.1\r\nHost: a\r\n\r\n"
                   "PUT /steps/2 HTTP/1.1\r\nHost: a\r\nContent-Length: " HTTP_ROW_STEP_LENGTH
                   "\r\n\r\n" HTTP_ROW_STEP);
  /* Requests on another connection, so that the agent had time for both. */
  for (int i = 0; i < 20; i++)
    assert_null(strstr(http_client_request(other, "GET", "/steps", NULL, NULL)->body, "\"2\""));
  assert_false(http_client_has_input(client));
  http_agent_open_gate(http, "gate");
  http_agent_expect_status(http, http_client_response(client), 200);
  http_agent_expect_status(http, http_client_response(client), 202);
}

HTTP_TEST(a_response_before_the_body_closes_the_connection) {
  static const struct {
    const char *method, *target;
    int status;
  } rows[] = {{"PUT", "/nowhere", 404},
              {"POST", "/steps/1/cancel/x", 404},
              {"POST", "/health", 405},
              {"PUT", "/steps", 405}};
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct http_client *client = http_agent_connect(http);
    http_client_send(client, formatted("%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n",
                                       rows[i].method, rows[i].target));
    http_agent_expect_status(http, http_client_response(client), rows[i].status);
    (void)http_client_offer(client, HTTP_ROW_FOLLOWER, strlen(HTTP_ROW_FOLLOWER));
    http_client_expect_closed(client);
    http_client_send_request(client = http_agent_connect(http), rows[i].method, rows[i].target,
                             NULL, "");
    http_agent_expect_status(http, http_client_response(client), rows[i].status);
    http_agent_expect_status(http, http_client_request(client, "GET", "/health", NULL, NULL), 200);
  }
  http_agent_expect_no_step(http);
}

static bool cannot_send(void *context) {
  return !http_client_offer(context, "x", 1);
}

/* If the agent closed at once, the kernel would reset the connection, and could discard the
   response. Over TCP the end must be an end, not a reset. */
HTTP_TEST(a_client_that_still_sends_gets_the_response_before_the_connection_ends) {
  enum { SENT = 256 * 1024 };
  char *body = calloc(1, SENT), byte;
  assert_non_null(body);
  http_agent_start_tcp(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "PUT /nowhere HTTP/1.1\r\nHost: localhost\r\n"
                           "Content-Length: 10000000\r\n\r\n");
  http_client_send_bytes(client, body, SENT);
  http_agent_expect_status(http, http_client_response(client), 404);
  assert_int_equal(read(http_client_fd(client), &byte, 1), 0);
  assert_true(wait_until(cannot_send, client, WAIT_BOUND_MS));
  free(body);
}

HTTP_TEST(a_client_that_leaves_in_a_request_has_no_effect) {
  static const char text[] = HTTP_ROW_FOLLOWER;
  http_agent_start(http, NULL, NULL);
  for (size_t length = 1; length < sizeof text - 1; length++) {
    struct http_client *client = http_agent_connect(http);
    http_client_send_bytes(client, text, length);
    if (length % 2 == 0)
      http_client_end_input(client);
    http_agent_disconnect(http, client);
  }
  http_agent_expect_no_step(http);
}
