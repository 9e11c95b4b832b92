/* The limits of `agent --http` that are no times: of headers, connections, long requests, bodies
   and memory. Limits of time are in tests/timed/test_http_limits.c. */

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "tests/support/http_agent.h"
#include "tests/support/http_rows.h"
#include "tests/support/proc.h"
#include "tests/test.h"

TEST_OVERLAP(4)

enum {
  HEADER_MAX = 16 * 1024,
  FIELDS_MAX = 64,
  CONNECTIONS_MAX = 64,
  LONG_MAX = 48,
  SHORT_BODY_MAX = 64 * 1024
};

/* With this limit of its memory an agent accepts bodies of an eighth of it. */
enum { MEMORY_LIMIT = 64 << 20, BODY_MAX = MEMORY_LIMIT / 8 };

static void limit_memory(const void *context) {
  (void)context;
  const struct rlimit limit = {.rlim_cur = MEMORY_LIMIT, .rlim_max = MEMORY_LIMIT};
  if (setrlimit(RLIMIT_DATA, &limit) != 0)
    _exit(AGENT_PROCESS_NO_START);
}

static void start_with_little_memory(struct http_agent *http) {
  http->setup.prepare = limit_memory;
  http_agent_start(http, NULL, NULL);
}

static void expect_no_step(struct http_agent *http) {
  http_agent_expect_no_step(http);
  assert_false(directory_has(&http->directory, HTTP_ROW_FILE));
}

/* Fails unless this response arrives, and the connection ends. */
static void expect_refused(struct http_agent *http, struct http_client *client, int status,
                           const char *word) {
  http_agent_expect_error(http, http_client_response(client), status, word);
  http_client_expect_closed(client);
}

static void expect_busy(struct http_agent *http, struct http_client *client) {
  const struct http_response *response = http_client_response(client);
  http_agent_expect_error(http, response, 503, "busy");
  const char *after = http_response_field(response, "Retry-After");
  assert_string_equal(after != NULL ? after : "", "1");
}

static void expect_health(struct http_agent *http, struct http_client *client) {
  http_agent_expect_status(http, http_client_request(client, "GET", "/health", NULL, NULL), 200);
}

/* --- headers ---------------------------------------------------------------------------------- */

/* Sends a request for health of this length, with its empty line, in a field or in the target. */
static void send_long_header(struct http_client *client, size_t length, bool in_target) {
  static const char front[] = "GET /health", back[] = " HTTP/1.1\r\nHost: a\r\n";
  struct buffer text = {0};
  buffer_add_format(&text, "%s%s%s", front, in_target ? "?" : back, in_target ? "" : "X: ");
  size_t rest = in_target ? strlen(back) + 2 : 4;
  while (text.length < length - rest)
    buffer_add(&text, "a", 1);
  buffer_add_format(&text, "%s\r\n", in_target ? back : "\r\n");
  assert_int_equal(text.length, length);
  (void)http_client_offer(client, text.bytes, text.length);
  (void)http_client_offer(client, HTTP_ROW_FOLLOWER, strlen(HTTP_ROW_FOLLOWER));
  buffer_release(&text);
}

HTTP_TEST(a_header_has_at_most_16_kib) {
  http_agent_start(http, NULL, NULL);
  /* Of the shorter ones only the empty line is beyond the limit. */
  for (int i = 0; i < 4; i++) {
    struct http_client *client = http_agent_connect(http);
    send_long_header(client, HEADER_MAX + 2 + (size_t)(i / 2), i % 2);
    expect_refused(http, client, 431, "too_large");
  }
  expect_no_step(http);
  for (int in_target = 0; in_target < 2; in_target++) {
    struct http_client *client = http_agent_connect(http);
    send_long_header(client, HEADER_MAX, in_target);
    http_agent_expect_status(http, http_client_response(client), 200);
    assert_in_range(http_client_response(client)->status, 200, 202);
  }
}

static void send_fields(struct http_client *client, int count) {
  struct buffer text = {0};
  buffer_add_string(&text, "GET /health HTTP/1.1\r\nHost: a\r\n");
  for (int i = 1; i < count; i++)
    buffer_add_format(&text, "X-%d: b\r\n", i);
  buffer_add_string(&text, "\r\n" HTTP_ROW_FOLLOWER);
  (void)http_client_offer(client, text.bytes, text.length);
  buffer_release(&text);
}

HTTP_TEST(a_header_has_at_most_64_fields) {
  http_agent_start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  send_fields(client, FIELDS_MAX + 1);
  expect_refused(http, client, 431, "too_large");
  expect_no_step(http);
  client = http_agent_connect(http);
  send_fields(client, FIELDS_MAX);
  http_agent_expect_status(http, http_client_response(client), 200);
}

/* It is refused before its line ends, and while the client sends. */
HTTP_TEST(a_header_without_an_end_is_refused) {
  static const char *const beginnings[] = {"", "GET /", "GET /health HTTP/1.1\r\n",
                                           "GET /health HTTP/1.1\r\nX: "};
  static char piece[4096];
  memset(piece, 'a', sizeof piece);
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
    struct http_client *client = http_agent_connect(http);
    http_client_send(client, beginnings[i]);
    for (int sent = 0; sent <= HEADER_MAX; sent += (int)sizeof piece)
      (void)http_client_offer(client, piece, sizeof piece);
    expect_refused(http, client, 431, "too_large");
  }
}

/* --- connections ------------------------------------------------------------------------------ */

static void open_with(struct http_agent *http, struct http_client **clients, int count,
                      const char *text) {
  for (int i = 0; i < count; i++) {
    clients[i] = http_agent_connect(http);
    http_client_send(clients[i], text);
  }
}

HTTP_TEST(beyond_64_connections_the_one_that_has_waited_longest_is_closed) {
  struct http_client *clients[CONNECTIONS_MAX];
  http_agent_start(http, NULL, NULL);
  open_with(http, clients, CONNECTIONS_MAX, "GET /health HTTP/1.1\r\n");
  expect_health(http, http_agent_connect(http));
  http_client_expect_closed(clients[0]);
  for (int i = 1; i < CONNECTIONS_MAX; i++) {
    http_client_send(clients[i], "Host: a\r\n\r\n");
    http_agent_expect_status(http, http_client_response(clients[i]), 200);
  }
}

/* The agent compares times in milliseconds. */
static bool has_ticked(void *since_ms) {
  return wait_timer_ms() > *(const double *)since_ms + 1;
}

HTTP_TEST(a_connection_waits_for_a_header_from_its_last_response_on) {
  enum { WAITS = 7, LAST = CONNECTIONS_MAX - 1 };
  struct http_client *clients[CONNECTIONS_MAX];
  http_agent_start(http, NULL, NULL);
  open_with(http, clients, CONNECTIONS_MAX, "GET /health HTTP/1.1\r\n");
  for (int i = LAST; i >= 0; i = i == WAITS + 1 ? i - 2 : i - 1) {
    http_client_send(clients[i], "Host: a\r\n\r\n");
    http_agent_expect_status(http, http_client_response(clients[i]), 200);
    /* All connections were accepted before this one; the others are answered later. */
    double answered_ms = wait_timer_ms();
    if (i == LAST)
      assert_true(wait_until(has_ticked, &answered_ms, WAIT_BOUND_MS));
  }
  expect_health(http, http_agent_connect(http));
  http_client_expect_closed(clients[WAITS]);
  expect_health(http, clients[0]);
}

/* Returns the only connection that has a response, after it has one. */
struct crowd {
  struct http_client **clients;
  int count;
  struct http_client *answered;
};

static bool one_is_answered(void *context) {
  struct crowd *crowd = context;
  crowd->answered = NULL;
  for (int i = 0; i < crowd->count; i++)
    if (http_client_has_input(crowd->clients[i])) {
      if (crowd->answered != NULL)
        fail_msg("more than one request is answered");
      crowd->answered = crowd->clients[i];
    }
  return crowd->answered != NULL;
}

static struct http_client *wait_for_answer(struct http_client **clients, int count) {
  struct crowd crowd = {clients, count, NULL};
  if (!wait_until(one_is_answered, &crowd, WAIT_BOUND_MS))
    fail_msg("no request is answered");
  return crowd.answered;
}

#define WAIT_FOR_1 "GET /steps/1?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n"

HTTP_TEST(a_new_connection_is_refused_if_64_requests_are_served) {
  struct http_client *clients[CONNECTIONS_MAX + 1];
  http_agent_start(http, NULL, NULL);
  http_agent_put_gate(http, "1", "gate");
  open_with(http, clients, LONG_MAX, WAIT_FOR_1);
  open_with(http, clients + LONG_MAX, CONNECTIONS_MAX - LONG_MAX,
            "PUT /steps/2 HTTP/1.1\r\nHost: a\r\nContent-Length: " HTTP_ROW_STEP_LENGTH
            "\r\n\r\n{");
  clients[CONNECTIONS_MAX] = http_agent_connect(http);
  http_client_send(clients[CONNECTIONS_MAX], "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
  assert_ptr_equal(wait_for_answer(clients, CONNECTIONS_MAX + 1), clients[CONNECTIONS_MAX]);
  expect_refused(http, clients[CONNECTIONS_MAX], 503, "busy");
  http_agent_open_gate(http, "gate");
  for (int i = 0; i < LONG_MAX; i++)
    http_agent_expect_status(http, http_client_response(clients[i]), 200);
  for (int i = LONG_MAX; i < CONNECTIONS_MAX; i++) {
    http_client_send(clients[i], &HTTP_ROW_STEP[1]);
    assert_in_range(http_client_response(clients[i])->status, 200, 202);
  }
}

HTTP_TEST(the_49th_long_request_is_refused_and_short_requests_are_served) {
  struct http_client *clients[LONG_MAX + 1], *refused, *other;
  http_agent_start(http, NULL, NULL);
  http_agent_put_gate(http, "1", "gate");
  open_with(http, clients, LONG_MAX + 1, WAIT_FOR_1);
  refused = wait_for_answer(clients, LONG_MAX + 1);
  expect_busy(http, refused);
  expect_health(http, refused); /* without a body its connection stays open */
  other = http_agent_connect(http);
  expect_health(http, other);
  http_agent_expect_status(http, http_client_request(other, "GET", "/steps", NULL, NULL), 200);
  http_agent_expect_status(http, http_client_request(other, "GET", "/steps/1", NULL, NULL), 202);
  http_agent_expect_status(http, http_client_request(other, "PUT", "/steps/2", NULL, HTTP_ROW_STEP),
                           202);
  http_agent_expect_error(http, http_client_request(other, "DELETE", "/steps/1", NULL, NULL), 409,
                          "not_over");
  assert_in_range(http_client_request(other, "POST", "/steps/1/cancel", NULL, NULL)->status, 200,
                  202);
  for (int i = 0; i < LONG_MAX + 1; i++)
    if (clients[i] != refused)
      http_agent_expect_status(http, http_client_response(clients[i]), 200);
  http_agent_expect_status(
      http, http_client_request(refused, "GET", "/steps/1?wait=60", NULL, NULL), 200);
}

/* Over TCP the agent cannot know whether a client has closed its connection or its sending side. */
HTTP_TEST(a_long_request_of_a_client_that_has_left_makes_room_for_another_one) {
  struct http_client *clients[LONG_MAX + 1];
  http_agent_start_tcp(http, NULL, NULL);
  http_agent_put_gate(http, "1", "gate");
  open_with(http, clients, LONG_MAX, WAIT_FOR_1);
  expect_health(http, http_agent_connect(http)); /* the others are served, too */
  http_client_end_input(clients[7]);
  http_client_end_input(clients[3]);
  clients[LONG_MAX] = http_agent_connect(http);
  http_client_send(clients[LONG_MAX], WAIT_FOR_1);
  http_client_expect_closed(clients[3]);
  http_agent_open_gate(http, "gate");
  for (int i = 0; i <= LONG_MAX; i++)
    if (i != 3)
      http_agent_expect_status(http, http_client_response(clients[i]), 200);
}

HTTP_TEST(a_body_over_64_kib_is_a_long_request) {
  enum { CHUNK = 0x4000 };
  static char body[CHUNK];
  struct http_client *clients[LONG_MAX];
  memset(body, ' ', sizeof body);
  http_agent_start(http, NULL, NULL);
  http_agent_put_gate(http, "1", "gate");
  open_with(http, clients, LONG_MAX - 1, WAIT_FOR_1);
  clients[LONG_MAX - 1] = http_agent_connect(http);
  http_client_send(clients[LONG_MAX - 1],
                   "PUT /steps/2 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                   "Content-Length: 65537\r\n\r\n");
  assert_int_equal(http_client_response(clients[LONG_MAX - 1])->status, 100);
  /* All places are taken when a long one is refused. */
  struct http_client *announced = http_agent_connect(http), *counted = http_agent_connect(http);
  struct http_client *shorter = http_agent_connect(http);
  http_client_send(counted, "PUT /steps/3 HTTP/1.1\r\nHost: a\r\n"
                            "Transfer-Encoding: chunked\r\n\r\n");
  for (int sent = 0; sent <= SHORT_BODY_MAX; sent += CHUNK) {
    (void)http_client_offer(counted, "4000\r\n", 6);
    (void)http_client_offer(counted, body, CHUNK);
    (void)http_client_offer(counted, "\r\n", 2);
  }
  expect_busy(http, counted);
  http_client_expect_closed(counted);
  http_client_send(announced, "PUT /steps/4 HTTP/1.1\r\nHost: a\r\n"
                              "Content-Length: 65537\r\n\r\n");
  expect_busy(http, announced);
  http_client_expect_closed(announced);
  http_client_send(shorter, "PUT /steps/5 HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n");
  for (int sent = CHUNK; sent < SHORT_BODY_MAX; sent += CHUNK)
    http_client_send_bytes(shorter, body, CHUNK);
  http_client_send_bytes(shorter, body, CHUNK - strlen(HTTP_ROW_STEP));
  http_client_send(shorter, HTTP_ROW_STEP);
  http_agent_expect_status(http, http_client_response(shorter), 202);
}

HTTP_TEST(streams_bodies_and_waiting_requests_delay_no_other_request) {
  enum { STREAMS = 16, WAITS = 32, BODIES = 14 };
  struct http_client *clients[STREAMS + WAITS + BODIES];
  http_agent_start(http, NULL, NULL);
  http_agent_put_gate(http, "1", "gate");
  open_with(http, clients, STREAMS, "GET /steps/1/events HTTP/1.1\r\nHost: a\r\n\r\n");
  open_with(http, clients + STREAMS, WAITS, WAIT_FOR_1);
  open_with(http, clients + STREAMS + WAITS, BODIES,
            "PUT /steps/2 HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{");
  struct http_client *client = http_agent_connect(http);
  expect_health(http, client);
  http_agent_expect_error(http, http_client_request(client, "DELETE", "/steps/9", NULL, NULL), 404,
                          "not_found");
  assert_in_range(http_client_request(client, "POST", "/steps/1/cancel", NULL, NULL)->status, 200,
                  202);
  for (int i = 0; i < STREAMS + WAITS; i++)
    http_agent_expect_status(http, http_client_response(clients[i]), 200);
  http_agent_expect_status(http, http_client_request(client, "DELETE", "/steps/1", NULL, NULL),
                           204);
}

/* --- bodies ----------------------------------------------------------------------------------- */

HTTP_MEMORY_TEST(a_body_that_is_announced_as_too_large_is_413) {
  static const char *const texts[] = {"Content-Length: 8388609\r\n\r\n",
                                      "Content-Length: 999999999999999999\r\n\r\n",
                                      "Expect: 100-continue\r\nContent-Length: 8388609\r\n\r\n",
                                      "Transfer-Encoding: chunked\r\n\r\n800001\r\n",
                                      "Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n",
                                      "Transfer-Encoding: chunked\r\n\r\n1\r\n \r\n800000\r\n"};
  start_with_little_memory(http);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct http_client *client = http_agent_connect(http);
    http_client_send(client, formatted("PUT /steps/y HTTP/1.1\r\nHost: a\r\n%s", texts[i]));
    expect_refused(http, client, 413, "too_large");
  }
  expect_no_step(http);
}

/* Sends that many spaces, or fewer if the agent closes the connection. */
static void send_spaces(struct http_client *client, size_t length) {
  static char piece[65536];
  memset(piece, ' ', sizeof piece);
  for (size_t n; length > 0; length -= n) {
    n = length < sizeof piece ? length : sizeof piece;
    if (!http_client_offer(client, piece, n))
      return;
  }
}

HTTP_MEMORY_TEST(a_body_that_becomes_too_large_is_413) {
  start_with_little_memory(http);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "PUT /steps/y HTTP/1.1\r\nHost: a\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < BODY_MAX / 0x10000 + 1 && !http_client_has_input(client); i++) {
    (void)http_client_offer(client, "10000\r\n", 7);
    send_spaces(client, 0x10000);
    (void)http_client_offer(client, "\r\n", 2);
  }
  expect_refused(http, client, 413, "too_large");
  expect_no_step(http);
}

HTTP_MEMORY_TEST(a_body_of_the_greatest_length_is_accepted) {
  start_with_little_memory(http);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "PUT /steps/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n");
  send_spaces(client, BODY_MAX - strlen(HTTP_ROW_STEP));
  http_client_send(client, HTTP_ROW_STEP);
  http_agent_expect_status(http, http_client_response(client), 202);
  http_agent_wait_file(http, HTTP_ROW_FILE);
}

HTTP_MEMORY_TEST(all_bodies_together_have_the_same_limit) {
  enum { EACH = 5 << 20 };
  start_with_little_memory(http);
  struct http_client *first = http_agent_connect(http), *second = http_agent_connect(http);
  http_client_send(first, "PUT /steps/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5242880\r\n\r\n");
  send_spaces(first, EACH - strlen(HTTP_ROW_STEP));
  http_client_send(second, "PUT /steps/2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5242880\r\n\r\n");
  send_spaces(second, EACH - strlen(HTTP_ROW_STEP));
  struct http_client *clients[] = {first, second};
  struct http_client *refused = wait_for_answer(clients, 2);
  struct http_client *other = refused == first ? second : first;
  expect_busy(http, refused);
  http_client_expect_closed(refused);
  http_client_send(other, HTTP_ROW_STEP);
  http_agent_expect_status(http, http_client_response(other), 202);
  http_agent_wait_file(http, HTTP_ROW_FILE);
}

/* A waiting step has the greatest length. */
HTTP_MEMORY_TEST(short_requests_do_not_wait_for_the_memory_of_bodies) {
  start_with_little_memory(http);
  http_agent_put_gate(http, "1", "gate");
  struct http_client *client = http_agent_connect(http), *other = http_agent_connect(http);
  http_client_send(client, "PUT /steps/2 HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n");
  send_spaces(client, BODY_MAX - strlen(HTTP_ROW_STEP));
  http_client_send(client, HTTP_ROW_STEP);
  http_agent_expect_status(http, http_client_response(client), 202);
  expect_health(http, other);
  http_agent_expect_status(http, http_client_request(other, "POST", "/steps/2/cancel", NULL, "{}"),
                           200);
  http_agent_open_gate(http, "gate");
}

#define JSON "Content-Type: application/json\r\n"
#define LONG_CALL "{\"id\":1,\"params\":{\"command\":\": >begun; exec sleep 600\",\"timeout\":700}}"
#define CANCEL "{\"method\":\"cancel\",\"params\":{\"id\":1}}"

HTTP_MEMORY_TEST(a_call_with_the_longest_body_can_be_cancelled) {
  const char *const arguments[] = {"--stdio", NULL};
  http->setup.prepare = limit_memory;
  http->setup.directory = http->directory.path;
  http_agent_start(http, arguments, NULL);
  struct http_client *client = http_agent_connect(http), *other = http_agent_connect(http);
  http_client_send(client,
                   "POST /execute HTTP/1.1\r\nHost: a\r\n" JSON "Content-Length: 8388608\r\n\r\n");
  send_spaces(client, BODY_MAX - strlen(LONG_CALL));
  http_client_send(client, LONG_CALL);
  http_agent_wait_file(http, "begun");
  expect_health(http, other);
  http_agent_expect_status(http, http_client_request(other, "GET", "/metrics", NULL, NULL), 200);
  http_agent_expect_status(http, http_client_request(other, "POST", "/execute", JSON, CANCEL), 200);
  const struct http_response *response = http_client_response(client);
  http_agent_expect_status(http, response, 200);
  assert_non_null(strstr(response->body, "cancelled"));
}

/* --- memory ----------------------------------------------------------------------------------- */

/* The allocator may keep this much that is free, and pages of code become resident. */
enum { SLACK_KIB = 1024 };

static void expect_growth(struct http_agent *http, long before_kib, long more_kib) {
  long grown_kib = http_agent_memory_kib(http) - before_kib;
  print_message("%ld KiB more\n", grown_kib);
  if (agent_process_is_shipped() && grown_kib > more_kib + SLACK_KIB)
    agent_process_fail(http->process, "%ld KiB more instead of at most %ld", grown_kib,
                       more_kib + SLACK_KIB);
}

/* Serves one request, so that what each agent needs once is resident. */
static long begin_memory(struct http_agent *http) {
  expect_health(http, http_agent_connect(http));
  return http_agent_memory_kib(http);
}

HTTP_TEST(memory_for_a_body_grows_as_it_arrives) {
  http_agent_start(http, NULL, NULL);
  long before_kib = begin_memory(http);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "PUT /steps/1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                           "Content-Length: 60000000\r\n\r\n");
  assert_int_equal(http_client_response(client)->status, 100);
  expect_growth(http, before_kib, 64);
  http_client_send(client, "{");
  expect_health(http, http_agent_connect(http));
  expect_growth(http, before_kib, 64);
}

HTTP_TEST(memory_for_a_body_does_not_depend_on_its_chunks) {
  enum { CHUNKS = 256 * 1024 };
  struct buffer text = {0};
  for (int i = 0; i < CHUNKS; i++)
    buffer_add_string(&text, "1\r\n \r\n");
  http_agent_start(http, NULL, NULL);
  long before_kib = begin_memory(http);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "PUT /steps/1 HTTP/1.1\r\nHost: a\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n");
  http_client_send_bytes(client, text.bytes, text.length);
  expect_growth(http, before_kib, 2 * CHUNKS / 1024);
  http_client_send(client, HTTP_ROW_STEP_HEX "\r\n" HTTP_ROW_STEP "\r\n0\r\n\r\n");
  http_agent_expect_status(http, http_client_response(client), 202);
  buffer_release(&text);
}

HTTP_TEST(without_the_key_clients_occupy_little_memory) {
  const char *const environment[] = {"SANDBOX_HTTP_KEY=0123456789abcdef", NULL};
  struct http_client *clients[CONNECTIONS_MAX];
  static char fields[HEADER_MAX];
  memset(fields, 'a', sizeof fields);
  memcpy(fields, "GET /health HTTP/1.1\r\nX: ", 25);
  http_agent_start(http, NULL, environment);
  long before_kib = begin_memory(http);
  for (int i = 0; i < CONNECTIONS_MAX - 1; i++) {
    clients[i] = http_agent_connect(http);
    http_client_send_bytes(clients[i], fields, sizeof fields - 8);
  }
  expect_health(http, http_agent_connect(http));
  expect_growth(http, before_kib, CONNECTIONS_MAX * (HEADER_MAX / 1024));
}

HTTP_TEST(the_body_of_an_unauthorised_request_is_not_kept) {
  const char *const environment[] = {"SANDBOX_HTTP_KEY=0123456789abcdef", NULL};
  http_agent_start(http, NULL, environment);
  long before_kib = begin_memory(http);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "PUT /steps/1 HTTP/1.1\r\nHost: a\r\n"
                           "Content-Length: 60000000\r\n\r\n");
  send_spaces(client, 8 << 20);
  expect_refused(http, client, 401, "unauthorized");
  expect_growth(http, before_kib, 256);
}

static bool is_stuck(void *context) {
  static const struct timespec pause = {.tv_nsec = 5000000};
  pid_t sender = *(pid_t *)context;
  for (int i = 0; i < 20; i++) {
    if (!proc_sleeps_in(sender, SYS_ppoll) && !proc_sleeps_in(sender, SYS_poll))
      return false;
    nanosleep(&pause, NULL);
  }
  return true;
}

/* A client that sends requests and reads nothing. */
HTTP_TEST(responses_that_are_not_read_occupy_little_memory) {
  enum { REQUESTS = 20000, KEPT_KIB = 256 };
  static const char request[] = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
  http_agent_start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  long before_kib = begin_memory(http);
  pid_t sender = fork();
  assert_true(sender >= 0);
  if (sender == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < REQUESTS; i++)
      http_client_send(client, request);
    _exit(0);
  }
  if (!wait_until(is_stuck, &sender, WAIT_BOUND_MS))
    fail_msg("the agent reads all requests");
  expect_growth(http, before_kib, KEPT_KIB);
  for (int i = 0; i < REQUESTS; i++)
    http_agent_expect_status(http, http_client_response(client), 200);
  int status;
  assert_int_equal(waitpid(sender, &status, 0), sender);
  assert_int_equal(status, 0);
}

/* --- descriptors ------------------------------------------------------------------------------ */

enum { DESCRIPTORS = 40 };

static void limit_descriptors(const void *context) {
  (void)context;
  const struct rlimit limit = {.rlim_cur = DESCRIPTORS, .rlim_max = DESCRIPTORS};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    _exit(AGENT_PROCESS_NO_START);
}

HTTP_TEST(a_connection_without_a_descriptor_is_refused_and_the_step_continues) {
  struct http_client *clients[CONNECTIONS_MAX];
  int served = 0;
  http->setup.prepare = limit_descriptors;
  http_agent_start(http, NULL, NULL);
  http_agent_put_gate(http, "1", "gate");
  for (int i = 0; i < CONNECTIONS_MAX; i++) {
    clients[i] = http_agent_connect(http);
    (void)http_client_offer(clients[i], WAIT_FOR_1, strlen(WAIT_FOR_1));
  }
  http_agent_open_gate(http, "gate");
  for (int i = 0; i < CONNECTIONS_MAX; i++) {
    int status = http_client_response(clients[i])->status;
    assert_true(status == 0 || status == 200 || status == 503);
    served += status == 200;
    http_agent_disconnect(http, clients[i]);
  }
  print_message("%d of %d are served\n", served, CONNECTIONS_MAX);
  assert_in_range(served, 1, DESCRIPTORS);
  struct http_client *client = http_agent_connect(http);
  const struct http_response *response = http_client_request(client, "GET", "/steps/1", NULL, NULL);
  http_agent_expect_status(http, response, 200);
  assert_non_null(strstr(response->body, "\"exitCode\":0"));
}

/* --- log -------------------------------------------------------------------------------------- */

HTTP_TEST(the_log_has_no_field_no_query_and_no_body) {
  const char *const arguments[] = {"--verbose", NULL};
  http_agent_start(http, arguments, NULL);
  struct http_client *client = http_agent_connect(http);
  http_agent_expect_status(
      http,
      http_client_request(client, "PUT", "/steps/1?hidden-query=1",
                          "X-Hidden-Name: hidden-value\r\n",
                          "{\"command\":\"true\",\"unknown\":\"hidden-body\"}"),
      202);
  http_agent_expect_error(
      http, http_client_request(client, "GET", "/nowhere", "X: hidden-value\r\n", NULL), 404,
      "not_found");
  agent_process_wait_log(http->process, "PUT /steps");
  agent_process_wait_log(http->process, " 202");
  agent_process_wait_log(http->process, " 404");
  assert_int_equal(agent_process_count_log(http->process, "idden"), 0);
}
