/* Times of streams and waits over HTTP: signs of life, readers that are slow or stuck, and the
   longest wait (docs/http.md). The tests overlap, because they mostly wait. */

#include <sys/socket.h>

#include "tests/support/http_steps.h"
#include "tests/test.h"

TEST_OVERLAP(6)

/* Clocks differ by EARLY_MS. A busy machine is late by at most LATE_MS. */
enum { QUIET_MS = 15000, STUCK_MS = 10000, WAIT_MS = 60000, EARLY_MS = 100, LATE_MS = 4000 };

static void expect_time(int64_t begun_ms, int64_t expected_ms) {
  int64_t passed_ms = wait_now_ms() - begun_ms;
  print_message("%lld ms\n", (long long)passed_ms);
  assert_in_range(passed_ms, expected_ms - EARLY_MS, expected_ms + LATE_MS);
}

/* --- silence ---------------------------------------------------------------------------------- */

static void wait_for_line(struct http_stream *stream, const char *expected) {
  const char *line = http_client_line(http_stream_client(stream));
  assert_string_equal(line != NULL ? line : "(end)", expected);
}

static void expect_signs_of_life(struct http_agent *http, const char *form, const char *sign) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", ":");
  (void)http_steps_put(http, "2", "{\"command\":\"true\"}");
  struct http_stream *running = http_stream_open(http, "/steps/1/events?after=1", form);
  struct http_stream *waiting = http_stream_open(http, "/steps/2/events", form);
  int64_t begun_ms = wait_now_ms();
  for (int i = 1; i <= 2; i++) {
    wait_for_line(running, sign);
    expect_time(begun_ms, i * QUIET_MS);
    if (*sign == ':')
      wait_for_line(running, "");
  }
  http_agent_open_gate(http, "1");
  free(http_stream_read_all(running));
  free(http_stream_read_all(waiting));
  assert_int_equal(http_stream_silences(waiting), 2);
  assert_int_equal(http_stream_silences(running), 0);
  http_stream_free(running);
  http_stream_free(waiting);
}

HTTP_TEST(after_15_s_without_output_a_stream_of_lines_has_an_empty_one) {
  expect_signs_of_life(http, HTTP_NDJSON, "");
}

HTTP_TEST(after_15_s_without_output_server_sent_events_have_a_comment) {
  expect_signs_of_life(http, HTTP_SSE, ":");
}

HTTP_TEST(a_wait_is_answered_after_60_s_at_most) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", ":");
  int64_t begun_ms = wait_now_ms();
  struct http_client *clients[] = {http_agent_connect(http), http_agent_connect(http)};
  http_client_send_request(clients[0], "GET", "/steps/1?wait=61", NULL, NULL);
  http_client_send_request(clients[1], "GET", "/steps/1?wait=99999999999999999999", NULL, NULL);
  /* A response takes longer than WAIT_BOUND_MS. */
  assert_false(wait_until((bool (*)(void *))http_client_has_input, clients[0], WAIT_MS - 2000));
  for (int i = 0; i < 2; i++) {
    http_agent_expect_status(http, http_client_response(clients[i]), 202);
    expect_time(begun_ms, WAIT_MS);
  }
}

/* --- readers that leave ----------------------------------------------------------------------- */

static bool is_alone(void *context) {
  return http_steps_metric(context, "sandbox_http_connections") == 1;
}

/* No event and no sign of life is sent meanwhile. */
HTTP_TEST(a_client_of_a_socket_file_that_closes_is_noticed_at_once) {
  enum { CLIENTS = 16, AT_ONCE_MS = 5000 };
  struct http_client *clients[CLIENTS];
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", ":");
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = http_agent_connect(http);
    http_client_send_request(
        clients[i], "GET", i % 2 == 0 ? "/steps/1?wait=60" : "/steps/1/events?after=1", NULL, NULL);
    if (i % 2 != 0)
      http_agent_expect_status(http, http_client_begin_response(clients[i]), 200);
  }
  assert_int_equal(http_steps_metric(http, "sandbox_http_connections"), CLIENTS + 1);
  for (int i = 0; i < CLIENTS; i++)
    http_agent_disconnect(http, clients[i]);
  if (!wait_until(is_alone, http, AT_ONCE_MS))
    fail_msg("%g connections are open", http_steps_metric(http, "sandbox_http_connections"));
}

/* --- stuck readers ---------------------------------------------------------------------------- */

static void expect_stuck_reader_to_be_closed(struct http_agent *http, const char *form) {
  enum { LINES = 200000 };
  http_agent_start(http, (const char *const[]){"--events-maxlen", "10", NULL}, NULL);
  struct http_stream *stream = http_stream_put(
      http, "/steps/1", form, formatted("{\"command\":\"seq\",\"args\":[\"%d\"]}", LINES));
  int64_t begun_ms = wait_now_ms();
  (void)http_steps_result(http, "1");
  expect_time(begun_ms, STUCK_MS);
  while (http_stream_next(stream) != NULL)
    continue;
  assert_false(http_client_is_whole(http_stream_client(stream)));
  assert_int_equal(http_stream_missing(stream), 0);
  double last = http_stream_last_seq(stream);
  http_stream_free(stream);
  stream = http_stream_open(http, formatted("/steps/1/events?after=%.0f", last), form);
  free(http_stream_read_all(stream));
  assert_int_equal(http_stream_missing(stream), LINES + 2 - last - 10);
  http_stream_free(stream);
}

HTTP_TEST(a_reader_that_accepts_no_byte_for_10_s_is_disconnected_and_finds_a_gap) {
  expect_stuck_reader_to_be_closed(http, HTTP_NDJSON);
}

HTTP_TEST(a_reader_of_server_sent_events_is_disconnected_as_well) {
  expect_stuck_reader_to_be_closed(http, HTTP_SSE);
}

/* --- slow readers ----------------------------------------------------------------------------- */

/* A slow reader takes SLOW_BYTES each SLOW_MS, until SLOW_FOR_MS have passed. */
enum { SLOW_BYTES = 5000, SLOW_MS = 500, SLOW_FOR_MS = 40000 };

/* Reads a body of HTTP/1.0 to its end, slowly at first. */
static void read_slowly(struct http_client *client, struct buffer *body) {
  const struct timespec pause = {.tv_nsec = SLOW_MS * 1000000L};
  int64_t begun_ms = wait_now_ms();
  ssize_t n;
  do {
    bool is_slow = wait_now_ms() - begun_ms < SLOW_FOR_MS;
    size_t size = is_slow ? SLOW_BYTES : 65536;
    n = recv(http_client_fd(client), buffer_space(body, size), size, 0);
    if (n < 0)
      fail_msg("after %zu bytes: %s", body->length, strerror(errno));
    body->length += (size_t)n;
    if (is_slow && n > 0)
      nanosleep(&pause, NULL);
  } while (n > 0);
  *buffer_space(body, 1) = '\0';
}

/* Fails unless the body consists of these lines; empty lines between them do not count. */
static void expect_lines(const char *body, const char *lines) {
  const char *at = strstr(body, "\r\n\r\n");
  assert_non_null(at);
  for (at += 4; *at != '\0' && *lines != '\0';) {
    size_t length = strcspn(at, "\n") + 1;
    if (length > 1 && strncmp(at, lines, length) != 0)
      fail_msg("`%.300s` instead of `%.300s`", at, lines);
    lines += length > 1 ? length : 0;
    at += length;
  }
  if (*lines != '\0' || *at != '\0')
    fail_msg("the stream ends before `%.300s`", lines);
}

static void expect_slow_reader_to_stay(struct http_agent *http) {
  struct http_client *client = http_agent_connect(http);
  struct buffer body = {0};
  /* Else the client's kernel takes megabytes, and then nothing for a long time. */
  int fd = http_client_fd(client), size = 16384;
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
  http_client_send(client, "GET /steps/1/events HTTP/1.0\r\n\r\n");
  read_slowly(client, &body);
  char *lines = http_stream_all(http, "/steps/1/events", NULL);
  expect_lines(body.bytes, lines);
  free(lines);
  buffer_release(&body);
}

/* More than the kernel takes at once, in lines that are longer than what the agent writes. */
static void run_long_lines(struct http_agent *http, int lines) {
  (void)http_steps_run(
      http, "1",
      http_steps_script(formatted("for i in $(seq %d); do head -c 1000000 /dev/zero | "
                                  "tr '\\0' $((i %% 10)); echo; done",
                                  lines)));
}

HTTP_TEST(a_slow_reader_is_not_disconnected) {
  http_agent_start(http, NULL, NULL);
  run_long_lines(http, 3);
  expect_slow_reader_to_stay(http);
}

HTTP_TEST(a_slow_reader_over_tcp_is_not_disconnected) {
  http_agent_start_tcp(http, (const char *const[]){"--events-keep-bytes", "99999999", NULL}, NULL);
  run_long_lines(http, 30);
  expect_slow_reader_to_stay(http);
}
