/* Streams of events over HTTP: their forms, resuming, gaps, and readers that are slow, stuck or
   absent (docs/http.md). Times are in tests/timed/test_http_stream.c. */

#include <sys/socket.h>

#include "tests/support/http_steps.h"
#include "tests/support/proc.h"
#include "tests/test.h"

TEST_OVERLAP(3)

#define TRUE_STEP "{\"command\":\"true\"}"

static const char *seq_step(int lines) {
  return formatted("{\"command\":\"seq\",\"args\":[\"%d\"]}", lines);
}

/* --- forms ------------------------------------------------------------------------------------ */

/* Output with both streams, long lines in parts, empty lines, and no newline at the end. */
#define ODD_OUTPUT                                                                                 \
  "echo a; echo b >&2; echo; printf 'x\\ry\\r\\nz\\t\\001\\342\\202\\254\\377\\n'; "               \
  "head -c 2500000 /dev/zero | tr '\\0' q; echo; seq 300; printf end"

HTTP_TEST(a_stream_is_one_event_a_line_and_then_the_result) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "1", http_steps_script(ODD_OUTPUT));
  char *lines = http_stream_all(http, "/steps/1/events", NULL);
  const char *result = http_steps_ask(http, 200, "GET", "/steps/1", NULL, NULL);
  assert_true(strlen(lines) > strlen(result));
  assert_string_equal(lines + strlen(lines) - strlen(result), result);
  assert_non_null(strstr(lines, "\"partial\":true"));
  assert_non_null(strstr(lines, "\"kind\":\"started\""));
  assert_non_null(strstr(lines, "\"kind\":\"completed\""));
  free(lines);
}

HTTP_TEST(server_sent_events_have_the_same_json) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "1", http_steps_script(ODD_OUTPUT));
  char *sent = http_stream_all(http, "/steps/1/events", HTTP_SSE);
  char *lines = http_stream_all(http, "/steps/1/events", HTTP_NDJSON);
  assert_string_equal(sent, lines);
  free(sent);
  free(lines);
}

HTTP_TEST(a_stream_is_ndjson_unless_server_sent_events_are_listed) {
  static const char *const others[] = {"Accept: */*\r\n", "Accept: text/*\r\n", "Accept: \r\n",
                                       "Accept: application/json, text/html;q=0.9\r\n",
                                       "Accept: text/event-streams\r\n"};
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "1", TRUE_STEP);
  char *lines = http_stream_all(http, "/steps/1/events", NULL);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    struct http_client *client = http_agent_connect(http);
    const struct http_response *response =
        http_client_request(client, "GET", "/steps/1/events", others[i], NULL);
    assert_string_equal(http_response_field(response, "Content-Type"), "application/x-ndjson");
    assert_string_equal(response->body, lines);
  }
  char *sent =
      http_stream_all(http, "/steps/1/events", "Accept: text/html, Text/Event-Stream;q=0.5\r\n");
  assert_string_equal(sent, lines);
  free(sent);
  free(lines);
}

HTTP_TEST(a_stream_over_http_1_0_ends_with_the_connection) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "1", TRUE_STEP);
  char *lines = http_stream_all(http, "/steps/1/events", NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "GET /steps/1/events HTTP/1.0\r\n\r\n");
  const struct http_response *response = http_client_response(client);
  http_agent_expect_status(http, response, 200);
  assert_false(response->is_chunked);
  assert_null(http_response_field(response, "Transfer-Encoding"));
  assert_string_equal(response->body, lines);
  free(lines);
}

HTTP_TEST(a_connection_is_used_again_after_a_stream) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "1", TRUE_STEP);
  struct http_client *client = http_agent_connect(http);
  for (int i = 0; i < 5; i++) {
    http_agent_expect_status(
        http, http_client_request(client, "GET", "/steps/1/events", HTTP_SSE, NULL), 200);
    http_agent_expect_status(http, http_client_request(client, "GET", "/steps/1", NULL, NULL), 200);
  }
}

/* --- when events arrive ----------------------------------------------------------------------- */

HTTP_TEST(the_header_of_a_stream_arrives_while_the_step_waits) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  struct http_stream *first = http_stream_put(http, "/steps/1", HTTP_NDJSON, seq_step(3));
  struct http_stream *second = http_stream_open(http, "/steps/1/events", HTTP_SSE);
  http_agent_open_gate(http, "gate");
  char *lines = http_stream_read_all(first), *sent = http_stream_read_all(second);
  assert_string_equal(lines, sent);
  assert_int_equal(http_stream_last_seq(first), 5);
  free(lines);
  free(sent);
  http_stream_free(first);
  http_stream_free(second);
}

/* After 15 s the sign of life of a silent stream would deliver it, too. */
HTTP_TEST(an_event_arrives_while_the_command_runs) {
  enum { SOON_MS = 10000 };
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  const char *step = http_steps_script("echo first; mkfifo 1 2>/dev/null; : <1; echo second");
  struct http_stream *streams[] = {http_stream_put(http, "/steps/1", HTTP_NDJSON, step),
                                   http_stream_open(http, "/steps/1/events", HTTP_SSE)};
  http_agent_open_gate(http, "gate");
  http_steps_wait_events(http, "1", 2);
  int64_t printed_ms = wait_now_ms();
  for (size_t i = 0; i < 2; i++) {
    assert_non_null(strstr(http_stream_next(streams[i]), "\"started\""));
    assert_non_null(strstr(http_stream_next(streams[i]), "\"first\""));
  }
  assert_true(wait_now_ms() - printed_ms < SOON_MS);
  const cJSON *state = http_steps_ask_json(http, 202, "GET", "/steps/1", NULL, NULL);
  assert_int_equal(http_steps_number(state, "lastSeq"), 2);
  http_agent_open_gate(http, "1");
  for (size_t i = 0; i < 2; i++) {
    assert_non_null(strstr(http_stream_next(streams[i]), "\"second\""));
    free(http_stream_read_all(streams[i]));
    http_stream_free(streams[i]);
  }
}

HTTP_TEST(a_stream_is_the_same_from_a_waiting_a_running_and_a_finished_step) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  struct http_stream *from_waiting =
      http_stream_put(http, "/steps/1", HTTP_NDJSON,
                      http_steps_script("seq 500; : >begun; mkfifo 1 2>/dev/null; : <1; seq 500"));
  http_agent_open_gate(http, "gate");
  http_agent_wait_file(http, "begun");
  http_steps_wait_events(http, "1", 501);
  struct http_stream *from_running = http_stream_open(http, "/steps/1/events", NULL);
  http_agent_open_gate(http, "1");
  char *first = http_stream_read_all(from_waiting), *second = http_stream_read_all(from_running);
  char *third = http_stream_all(http, "/steps/1/events", NULL);
  assert_string_equal(first, second);
  assert_string_equal(first, third);
  free(first);
  free(second);
  free(third);
  http_stream_free(from_waiting);
  http_stream_free(from_running);
}

/* --- resuming --------------------------------------------------------------------------------- */

static const char *after_lines(const char *lines, int count) {
  for (; count > 0; count--)
    lines = strchr(lines, '\n') + 1;
  return lines;
}

HTTP_TEST(a_stream_can_be_resumed_after_every_event) {
  enum { EVENTS = 42 };
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "1", seq_step(EVENTS - 2));
  char *all = http_stream_all(http, "/steps/1/events", NULL);
  for (int after = 0; after <= EVENTS; after++) {
    const char *const targets[] = {formatted("/steps/1/events?after=%d", after),
                                   formatted("/steps/1/events?after=%d", after), "/steps/1/events"};
    const char *const fields[] = {HTTP_NDJSON, HTTP_SSE,
                                  formatted(HTTP_SSE "Last-Event-ID: %d\r\n", after)};
    for (int i = 0; i < 3; i++) {
      char *rest = http_stream_all(http, targets[i], fields[i]);
      assert_string_equal(rest, after_lines(all, after));
      free(rest);
    }
  }
  free(all);
}

HTTP_TEST(after_counts_more_than_the_last_event_id) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "1", seq_step(10));
  struct http_client *client = http_agent_connect(http);
  const struct http_response *response = http_client_request(
      client, "GET", "/steps/1/events?after=4", HTTP_SSE "Last-Event-ID: 9\r\n", NULL);
  assert_non_null(strstr(response->body, "id: 5\n"));
  response = http_client_request(client, "GET", "/steps/1/events?after=4",
                                 HTTP_SSE "Last-Event-ID: x\r\n", NULL);
  http_agent_expect_status(http, response, 200);
  response =
      http_client_request(client, "GET", "/steps/1/events", HTTP_SSE "Last-Event-ID: x\r\n", NULL);
  http_agent_expect_error(http, response, 400, "invalid");
}

HTTP_TEST(a_number_after_the_last_event_is_from_another_agent) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "over", TRUE_STEP);
  http_steps_hold(http, "running", "echo a");
  (void)http_steps_put(http, "waiting", TRUE_STEP);
  http_steps_wait_events(http, "running", 2);
  http_steps_expect_error(http, 409, "ahead", "GET", "/steps/over/events?after=3", NULL);
  http_steps_expect_error(http, 409, "ahead", "GET", "/steps/running/events?after=3", NULL);
  http_steps_expect_error(http, 409, "ahead", "GET", "/steps/waiting/events?after=1", NULL);
  struct http_client *client = http_agent_connect(http);
  http_agent_expect_error(
      http, http_client_request(client, "PUT", "/steps/waiting?after=1", HTTP_NDJSON, TRUE_STEP),
      409, "ahead");
}

HTTP_TEST(a_stream_after_the_last_event_continues_with_the_next_one) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", "echo a");
  http_steps_wait_events(http, "1", 2);
  struct http_stream *stream = http_stream_open(http, "/steps/1/events?after=2", NULL);
  http_agent_open_gate(http, "1");
  assert_non_null(strstr(http_stream_next(stream), "\"completed\""));
  assert_non_null(strstr(http_stream_next(stream), "\"exitCode\":0"));
  assert_null(http_stream_next(stream));
  http_stream_free(stream);
}

struct request {
  struct http_agent *http;
  const char *target, *fields;
  struct http_client *client;
  const struct http_response *response;
};

/* The agent may not have noticed yet that earlier readers have left. */
static bool is_admitted(void *context) {
  struct request *request = context;
  request->client = http_client_connect(request->http->address);
  http_client_send_request(request->client, "GET", request->target, request->fields, NULL);
  request->response = http_client_begin_response(request->client);
  if (request->response->status == 200)
    return true;
  assert_int_equal(request->response->status, 429);
  http_client_free(request->client);
  return false;
}

/* Reads about `length` bytes of a stream, and resets the connection. Appends the whole lines to
   `lines`, and returns whether the result was among them. */
static bool read_piece(struct http_agent *http, bool is_sse, size_t length, double *last,
                       struct buffer *lines) {
  struct request request = {.http = http,
                            .target = formatted("/steps/1/events?after=%.0f", *last),
                            .fields = is_sse ? HTTP_SSE : HTTP_NDJSON};
  if (!wait_until(is_admitted, &request, WAIT_BOUND_MS))
    fail_msg("the stream is not continued");
  struct http_client *client = request.client;
  const struct http_response *response = request.response;
  while (response->body_length < length && http_client_read_body(client))
    continue;
  if (length > response->body_length)
    length = response->body_length;
  bool has_result = false;
  const char *at = response->body, *end = response->body + length, *newline;
  for (; (newline = memchr(at, '\n', (size_t)(end - at))) != NULL; at = newline + 1) {
    const char *json = !is_sse ? at : strncmp(at, "data: ", 6) == 0 ? at + 6 : NULL;
    if (json == NULL || newline == at || (is_sse && (end - newline < 2 || newline[1] != '\n')))
      continue;
    buffer_add(lines, json, (size_t)(newline + 1 - json));
    const char *seq = memmem(json, (size_t)(newline - json), ",\"seq\":", 7);
    has_result = seq == NULL;
    *last = seq != NULL ? strtod(seq + 7, NULL) : *last;
  }
  http_client_reset(client);
  http_client_free(client);
  return has_result;
}

/* Some pieces are longer than the result, which is longer than all events together. */
static size_t random_length(void) {
  return (size_t)random() % (random() % 5 == 0 ? 1000000 : 9000);
}

/* Returns how many pieces it took until the result. */
static int read_in_pieces(struct http_agent *http, char **all) {
  struct buffer lines = {0};
  double last = 0;
  int pieces = 1;
  while (!read_piece(http, random() % 2, random_length(), &last, &lines))
    pieces++;
  *buffer_space(&lines, 1) = '\0';
  *all = lines.bytes;
  return pieces;
}

HTTP_TEST(a_stream_that_is_cut_at_random_bytes_and_resumed_equals_an_uncut_one) {
  enum { CUTS = 1000 };
  srandom(17);
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(
      http, "1",
      http_steps_script("for i in $(seq 60); do seq $i; head -c $((i * 100)) /dev/zero | "
                        "tr '\\0' $((i % 10)); echo; sleep 0.01; done"));
  char *live;
  int cuts = read_in_pieces(http, &live);
  print_message("%d pieces while the command ran\n", cuts);
  char *uncut = http_stream_all(http, "/steps/1/events", NULL);
  assert_string_equal(live, uncut);
  free(live);
  while (cuts < CUTS) {
    char *all;
    cuts += read_in_pieces(http, &all);
    assert_string_equal(all, uncut);
    free(all);
  }
  free(uncut);
}

/* --- several readers -------------------------------------------------------------------------- */

enum { STREAMS_MAX = 16 };

HTTP_TEST(sixteen_readers_get_the_same_stream_and_another_one_429) {
  struct http_stream *streams[STREAMS_MAX];
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", "seq 1000");
  for (int i = 0; i < STREAMS_MAX; i++)
    streams[i] = http_stream_open(http, "/steps/1/events", i % 2 == 0 ? HTTP_NDJSON : HTTP_SSE);
  struct http_client *client = http_agent_connect(http);
  const struct http_response *response =
      http_client_request(client, "GET", "/steps/1/events", NULL, NULL);
  http_agent_expect_error(http, response, 429, "readers");
  assert_string_equal(http_response_field(response, "Retry-After"), "1");
  http_agent_open_gate(http, "1");
  char *first = http_stream_read_all(streams[0]);
  for (int i = 1; i < STREAMS_MAX; i++) {
    char *other = http_stream_read_all(streams[i]);
    assert_string_equal(other, first);
    free(other);
    http_stream_free(streams[i]);
  }
  http_stream_free(streams[0]);
  free(first);
  free(http_stream_all(http, "/steps/1/events", NULL));
}

HTTP_TEST(a_put_whose_stream_is_refused_queues_nothing) {
  struct http_stream *streams[STREAMS_MAX];
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", ":");
  const struct {
    const char *target, *word;
    int status;
  } rows[] = {{"/steps/2?after=1", "ahead", 409},
              {"/steps/2?after=x", "invalid", 400},
              {"/steps/2", "readers", 429}};
  for (int i = 0; i < STREAMS_MAX; i++)
    streams[i] = http_stream_open(http, "/steps/1/events", NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct http_client *client = http_agent_connect(http);
    http_agent_expect_error(
        http, http_client_request(client, "PUT", rows[i].target, HTTP_NDJSON, TRUE_STEP),
        rows[i].status, rows[i].word);
    http_steps_expect_error(http, 404, "not_found", "GET", "/steps/2", NULL);
  }
  (void)http_steps_put(http, "2", TRUE_STEP);
  for (int i = 0; i < STREAMS_MAX; i++)
    http_stream_free(streams[i]);
}

static bool can_open(void *context) {
  struct http_agent *http = context;
  struct http_client *client = http_client_connect(http->address);
  http_client_send_request(client, "GET", "/steps/1/events", NULL, NULL);
  int status = http_client_begin_response(client)->status;
  assert_true(status == 200 || status == 429);
  http_client_free(client);
  return status == 200;
}

/* The agent notices that a reader has left when it sends the next event. */
HTTP_TEST(a_reader_that_leaves_makes_room_for_another_one) {
  struct http_stream *streams[STREAMS_MAX];
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", ":");
  for (int i = 0; i < STREAMS_MAX; i++)
    streams[i] = http_stream_open(http, "/steps/1/events", NULL);
  http_stream_free(streams[3]);
  http_agent_open_gate(http, "1");
  if (!wait_until(can_open, http, WAIT_BOUND_MS))
    fail_msg("no other reader is admitted");
  for (int i = 0; i < STREAMS_MAX; i++)
    if (i != 3)
      http_stream_free(streams[i]);
}

/* Over TCP a silent stream does not show whether its client has closed only its sending side. */
HTTP_TEST(a_silent_stream_of_a_client_that_has_left_makes_room_for_another_one) {
  struct http_stream *streams[STREAMS_MAX];
  http_agent_start_tcp(http, NULL, NULL);
  http_steps_hold(http, "1", ":");
  for (int i = 0; i < STREAMS_MAX; i++)
    streams[i] = http_stream_open(http, "/steps/1/events", NULL);
  http_client_end_input(http_stream_client(streams[5]));
  http_client_end_input(http_stream_client(streams[3]));
  struct http_stream *another = http_stream_open(http, "/steps/1/events", NULL);
  http_agent_open_gate(http, "1");
  char *all = http_stream_read_all(another);
  for (int i = 0; i < STREAMS_MAX; i++) {
    while (http_stream_next(streams[i]) != NULL)
      continue;
    assert_int_equal(http_stream_has_result(streams[i]), i != 3);
    http_stream_free(streams[i]);
  }
  http_stream_free(another);
  free(all);
}

HTTP_TEST(a_step_does_not_depend_on_its_readers) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "1", http_steps_script("for i in $(seq 40); do seq 100; done"));
  for (int i = 0; i < 10; i++) {
    struct http_stream *stream = http_stream_open(http, "/steps/1/events", NULL);
    for (int line = 0; line < 10 * i; line++)
      (void)http_stream_next(stream);
    if (i % 2 == 0)
      http_client_reset(http_stream_client(stream));
    http_stream_free(stream);
  }
  const cJSON *result = http_steps_result(http, "1");
  assert_int_equal(http_steps_number(result, "exitCode"), 0);
  assert_int_equal(http_steps_number(result, "eventCount"), 4002);
}

HTTP_TEST(only_the_result_ends_a_stream) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", "echo a");
  struct http_stream *streams[] = {http_stream_open(http, "/steps/1/events", NULL),
                                   http_stream_open(http, "/steps/1/events", HTTP_SSE)};
  assert_int_equal(kill(agent_process_pid(http->process), SIGKILL), 0);
  for (size_t i = 0; i < 2; i++) {
    while (http_stream_next(streams[i]) != NULL)
      continue;
    assert_false(http_client_is_whole(http_stream_client(streams[i])));
    http_stream_free(streams[i]);
  }
}

/* --- absent readers --------------------------------------------------------------------------- */

HTTP_TEST(without_a_reader_nothing_waits_and_the_oldest_events_are_dropped) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_put(http, "1", seq_step(300000));
  const cJSON *result = http_steps_result(http, "1");
  assert_int_equal(http_steps_number(result, "eventCount"), 300002);
  struct http_stream *stream = http_stream_open(http, "/steps/1/events", NULL);
  free(http_stream_read_all(stream));
  assert_int_equal(http_stream_missing(stream), 290002);
  http_stream_free(stream);
  assert_int_equal(http_steps_metric(http, "sandbox_events_held"), 10000);
}

HTTP_TEST(a_gap_names_the_events_that_are_no_longer_held) {
  http_agent_start(http, (const char *const[]){"--events-maxlen", "10", NULL}, NULL);
  (void)http_steps_run(http, "1", "{\"schemaVersion\":2,\"command\":\"seq\",\"args\":[\"100\"]}");
  struct http_stream *stream = http_stream_open(http, "/steps/1/events?after=1", NULL);
  cJSON *gap = cJSON_Parse(http_stream_next(stream));
  assert_int_equal(http_steps_number(gap, "schemaVersion"), 2);
  assert_string_equal(http_steps_text(gap, "stepId"), "1");
  assert_string_equal(http_steps_text(gap, "kind"), "gap");
  assert_string_equal(http_steps_text(gap, "line"), "events 2 to 92 are no longer held");
  assert_int_equal(strlen(http_steps_text(gap, "timestamp")), 29);
  assert_int_equal(http_steps_number(gap, "seq"), 92);
  assert_int_equal(http_steps_number(gap, "firstSeq"), 2);
  assert_int_equal(cJSON_GetArraySize(gap), 7);
  assert_non_null(strstr(http_stream_next(stream), "\"seq\":93"));
  cJSON_Delete(gap);
  http_stream_free(stream);
}

HTTP_TEST(gaps_and_events_cover_each_number_once_wherever_a_reader_resumes) {
  enum { EVENTS = 102, HELD = 10 };
  http_agent_start(http, (const char *const[]){"--events-maxlen", "10", NULL}, NULL);
  (void)http_steps_run(http, "1", seq_step(EVENTS - 2));
  for (int after = 0; after <= EVENTS; after++)
    for (int is_sse = 0; is_sse < 2; is_sse++) {
      struct http_stream *stream = http_stream_open(
          http, formatted("/steps/1/events?after=%d", after), is_sse ? HTTP_SSE : HTTP_NDJSON);
      free(http_stream_read_all(stream));
      int missing = EVENTS - HELD - after;
      assert_int_equal(http_stream_missing(stream), missing > 0 ? missing : 0);
      assert_int_equal(http_stream_last_seq(stream), EVENTS);
      http_stream_free(stream);
    }
}

HTTP_TEST(the_events_of_older_steps_are_dropped_first) {
  http_agent_start(http, (const char *const[]){"--events-maxlen", "50", NULL}, NULL);
  (void)http_steps_run(http, "1", seq_step(20));
  (void)http_steps_run(http, "2", seq_step(38));
  struct http_stream *first = http_stream_open(http, "/steps/1/events", NULL);
  struct http_stream *second = http_stream_open(http, "/steps/2/events", NULL);
  free(http_stream_read_all(first));
  free(http_stream_read_all(second));
  assert_int_equal(http_stream_missing(first), 12);
  assert_int_equal(http_stream_missing(second), 0);
  http_stream_free(first);
  http_stream_free(second);
  (void)http_steps_run(http, "3", seq_step(100));
  first = http_stream_open(http, "/steps/1/events?after=7", HTTP_SSE);
  free(http_stream_read_all(first));
  assert_int_equal(http_stream_missing(first), 15);
  http_stream_free(first);
  assert_int_equal(http_steps_metric(http, "sandbox_events_held"), 50);
}

HTTP_TEST(events_are_held_up_to_a_number_of_bytes) {
  const char *const arguments[] = {"--events-maxlen", "0", "--events-keep-bytes", "65536", NULL};
  http_agent_start(http, arguments, NULL);
  (void)http_steps_run(http, "1", seq_step(20000));
  char *lines = http_stream_all(http, "/steps/1/events", NULL);
  const char *events = after_lines(lines, 1);
  size_t bytes = strlen(events) - strlen(http_steps_ask(http, 200, "GET", "/steps/1", NULL, NULL));
  print_message("%zu bytes of events are held\n", bytes);
  assert_in_range(bytes, 65536 - 200, 65536);
  free(lines);
}

HTTP_TEST(no_number_of_events_is_a_limit_if_events_maxlen_is_0) {
  http_agent_start(http, (const char *const[]){"--events-maxlen", "0", NULL}, NULL);
  (void)http_steps_run(http, "1", seq_step(50000));
  struct http_stream *stream = http_stream_open(http, "/steps/1/events", NULL);
  free(http_stream_read_all(stream));
  assert_int_equal(http_stream_missing(stream), 0);
  http_stream_free(stream);
}

/* One event is larger than everything that may be held. */
HTTP_TEST(a_line_that_is_longer_than_the_limit_arrives_at_a_connected_reader) {
  http_agent_start(http, (const char *const[]){"--events-keep-bytes", "65536", NULL}, NULL);
  struct http_stream *stream = http_stream_put(
      http, "/steps/1", HTTP_NDJSON,
      http_steps_script("for i in 1 2 3; do head -c 900000 /dev/zero | tr '\\0' q; echo; done"));
  char *lines = http_stream_read_all(stream);
  assert_int_equal(http_stream_missing(stream), 0);
  assert_true(strlen(lines) > 2700000);
  free(lines);
  http_stream_free(stream);
}

/* --- slow and stuck readers ------------------------------------------------------------------- */

#define FEW_EVENTS                                                                                 \
  (const char *const[]) {                                                                          \
    "--events-maxlen", "10", NULL                                                                  \
  }

struct progress {
  struct http_agent *http;
  const char *id;
  double last_seq;
  int unchanged;
};

static bool does_not_advance(void *context) {
  struct progress *progress = context;
  const cJSON *state = http_steps_ask_json(progress->http, 202, "GET",
                                           formatted("/steps/%s", progress->id), NULL, NULL);
  double last_seq = http_steps_number(state, "lastSeq");
  progress->unchanged =
      last_seq == progress->last_seq && last_seq > 1 ? progress->unchanged + 1 : 0;
  progress->last_seq = last_seq;
  return progress->unchanged >= 20;
}

/* Waits until the command of the running step waits for a reader. */
static double wait_until_blocked(struct http_agent *http, const char *id) {
  struct progress progress = {http, id, 0, 0};
  if (!wait_until(does_not_advance, &progress, WAIT_BOUND_MS))
    fail_msg("the command does not wait");
  return progress.last_seq;
}

HTTP_TEST(the_command_waits_for_a_connected_reader_and_no_event_is_dropped) {
  enum { LINES = 200000 };
  http_agent_start(http, FEW_EVENTS, NULL);
  struct http_stream *stream = http_stream_put(http, "/steps/1", HTTP_NDJSON, seq_step(LINES));
  double blocked_at = wait_until_blocked(http, "1");
  print_message("the command waits after %g events\n", blocked_at);
  assert_true(blocked_at < LINES);
  free(http_stream_read_all(stream));
  assert_int_equal(http_stream_missing(stream), 0);
  assert_int_equal(http_stream_last_seq(stream), LINES + 2);
  http_stream_free(stream);
}

HTTP_TEST(the_command_waits_for_the_slowest_of_several_readers) {
  enum { LINES = 50000, READERS = 4 };
  struct http_stream *streams[READERS];
  http_agent_start(http, FEW_EVENTS, NULL);
  http_steps_hold(http, "gate", ":");
  (void)http_steps_put(http, "1", seq_step(LINES));
  for (int i = 0; i < READERS; i++)
    streams[i] = http_stream_open(http, "/steps/1/events", i % 2 == 0 ? HTTP_NDJSON : HTTP_SSE);
  http_agent_open_gate(http, "gate");
  /* Each one is ahead of the others in its turn, but by less than a socket holds. */
  for (int line = 0; line < LINES + 3;) {
    int count = 100 < LINES + 3 - line ? 100 : LINES + 3 - line;
    for (int i = 0; i < READERS; i++)
      for (int n = 0; n < count; n++)
        if (http_stream_next(streams[i]) == NULL)
          agent_process_fail(http->process, "reader %d of %d has only %g events", i, READERS,
                             http_stream_last_seq(streams[i]));
    line += count;
  }
  for (int i = 0; i < READERS; i++) {
    assert_null(http_stream_next(streams[i]));
    assert_true(http_stream_has_result(streams[i]));
    assert_int_equal(http_stream_missing(streams[i]), 0);
    http_stream_free(streams[i]);
  }
}

HTTP_TEST(the_command_continues_when_the_reader_that_it_waits_for_leaves) {
  enum { LINES = 200000 };
  http_agent_start(http, FEW_EVENTS, NULL);
  struct http_stream *stream = http_stream_put(http, "/steps/1", HTTP_NDJSON, seq_step(LINES));
  assert_true(wait_until_blocked(http, "1") < LINES);
  http_client_reset(http_stream_client(stream));
  http_stream_free(stream);
  assert_int_equal(http_steps_number(http_steps_result(http, "1"), "eventCount"), LINES + 2);
}

/* The events of an earlier step that a reader has yet to read are not dropped either. */
HTTP_TEST(the_command_waits_for_the_reader_of_an_earlier_step) {
  enum { LINES = 30000 };
  const char *const arguments[] = {"--events-maxlen", "30002", NULL};
  http_agent_start(http, arguments, NULL);
  (void)http_steps_run(http, "1", seq_step(LINES));
  struct http_stream *stream = http_stream_open(http, "/steps/1/events", NULL);
  (void)http_steps_put(http, "2", seq_step(LINES));
  assert_true(wait_until_blocked(http, "2") < LINES);
  free(http_stream_read_all(stream));
  assert_int_equal(http_stream_missing(stream), 0);
  http_stream_free(stream);
  assert_int_equal(http_steps_number(http_steps_result(http, "2"), "exitCode"), 0);
}

HTTP_TEST(a_cancel_and_a_deadline_end_a_command_that_waits_for_a_reader) {
  http_agent_start(http, FEW_EVENTS, NULL);
  struct http_stream *stream = http_stream_put(http, "/steps/1", HTTP_NDJSON, seq_step(200000));
  (void)wait_until_blocked(http, "1");
  (void)http_steps_ask(http, 202, "POST", "/steps/1/cancel", NULL, NULL);
  char *lines = http_stream_read_all(stream);
  assert_non_null(strstr(lines, "cancelled: by a cancel step"));
  assert_int_equal(http_stream_missing(stream), 0);
  free(lines);
  http_stream_free(stream);
  stream =
      http_stream_put(http, "/steps/2", HTTP_NDJSON, "{\"command\":\"yes\",\"timeoutSeconds\":2}");
  (void)wait_until_blocked(http, "2");
  lines = http_stream_read_all(stream);
  assert_non_null(strstr(lines, "timed out after 2s"));
  assert_int_equal(http_stream_missing(stream), 0);
  free(lines);
  http_stream_free(stream);
}

HTTP_TEST(health_cancel_and_delete_do_not_wait_for_a_stuck_reader) {
  http_agent_start(http, FEW_EVENTS, NULL);
  (void)http_steps_run(http, "0", TRUE_STEP);
  struct http_stream *stream = http_stream_put(http, "/steps/1", HTTP_SSE, seq_step(200000));
  (void)wait_until_blocked(http, "1");
  (void)http_steps_put(http, "2", TRUE_STEP);
  assert_int_equal(http_steps_health(http, "waiting"), 1);
  (void)http_steps_ask(http, 204, "DELETE", "/steps/0", NULL, NULL);
  (void)http_steps_ask(http, 200, "POST", "/steps/2/cancel", NULL, NULL);
  (void)http_steps_ask(http, 202, "POST", "/steps/1/cancel", NULL, NULL);
  assert_int_equal(http_steps_health(http, "waiting"), 0);
  http_stream_free(stream);
}

HTTP_TEST(a_reader_of_single_bytes_gets_every_event) {
  http_agent_start(http, FEW_EVENTS, NULL);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, formatted("PUT /steps/1 HTTP/1.0\r\nAccept: application/x-ndjson\r\n"
                                     "Content-Length: %zu\r\n\r\n%s",
                                     strlen(seq_step(5000)), seq_step(5000)));
  struct buffer all = {0};
  while (recv(http_client_fd(client), buffer_space(&all, 1), 1, 0) == 1)
    all.length++;
  *buffer_space(&all, 1) = '\0';
  assert_non_null(strstr(all.bytes, "\"line\":\"5000\""));
  assert_non_null(strstr(all.bytes, "\"eventCount\":5002"));
  assert_null(strstr(all.bytes, "no longer held"));
  buffer_release(&all);
}
