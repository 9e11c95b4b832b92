/* The limits of time of `agent --http`. One agent has a client for each limit, and all clients wait
   at the same time: 80 seconds. How late the agent is on a busy machine is bounded loosely. */

#include <poll.h>
#include <sys/socket.h>

#include "tests/support/http_agent.h"
#include "tests/support/http_rows.h"
#include "tests/test.h"

/* The clocks of the agent and of the test may differ by EARLY_MS. */
enum { EARLY_MS = 100, LATE_MS = 4000, TICK_MS = 500 };

enum {
  SILENT,         /* sends nothing */
  HALF_HEADER,    /* sends the beginning of a header */
  SLOW_HEADER,    /* sends a byte of it each second */
  SECOND_HEADER,  /* the same after a response */
  IDLE,           /* sends nothing after a response */
  HALF_BODY,      /* sends the beginning of a body */
  SLOW_BODY,      /* sends a byte of it each 20 seconds, and then no more */
  BODY_LATER,     /* the header takes 8 seconds, and then half a body follows */
  HALF_CHUNK,     /* as HALF_BODY, in chunks */
  STUCK_RESPONSE, /* reads no byte of a long response */
  STUCK_STREAM,   /* reads no byte of a stream */
  SENDS_UNREAD,   /* goes on sending after a response that closes the connection */
  CASES
};

struct expected {
  const char *name;
  int64_t after_ms; /* the last action of the client */
  int status;       /* 0: closed without a response */
};

static const struct expected expected[CASES] = {
    [SILENT] = {"a client that sends nothing", 10000, 0},
    [HALF_HEADER] = {"half a header", 10000, 408},
    [SLOW_HEADER] = {"a header byte by byte", 10000, 408},
    [SECOND_HEADER] = {"half a second header", 10000, 408},
    [IDLE] = {"an idle connection", 75000, 0},
    [HALF_BODY] = {"half a body", 30000, 408},
    [SLOW_BODY] = {"a slow body", 30000, 408},
    [BODY_LATER] = {"half a body after a slow header", 30000, 408},
    [HALF_CHUNK] = {"half a chunk", 30000, 408},
    [STUCK_RESPONSE] = {"a response that is not read", 30000, 200},
    [STUCK_STREAM] = {"a stream that is not read", 10000, 200},
    [SENDS_UNREAD] = {"a client that goes on sending", 0, 400},
};

struct waiting {
  struct http_client *clients[CASES];
  int64_t begun_ms[CASES]; /* when the time of the limit began, at the earliest */
  int64_t ended_ms[CASES]; /* 0: not yet */
};

static void begin(struct http_agent *http, struct waiting *self, int which, const char *text) {
  self->begun_ms[which] = wait_now_ms();
  self->clients[which] = http_agent_connect(http);
  http_client_send(self->clients[which], text);
}

/* Steps whose results and events are longer than what a socket holds. */
static void run_steps(struct http_agent *http) {
  struct http_client *client = http_agent_connect(http);
  http_agent_expect_status(http,
                           http_client_request(client, "PUT", "/steps/long", NULL,
                                               "{\"command\":\"seq\",\"args\":[\"100000\"]}"),
                           202);
  http_agent_expect_status(
      http, http_client_request(client, "GET", "/steps/long?wait=60", NULL, NULL), 200);
  http_agent_disconnect(http, client);
}

static void begin_all(struct http_agent *http, struct waiting *self) {
  begin(http, self, SILENT, "");
  begin(http, self, HALF_HEADER, "GET /health HTTP/1.1\r\nHost: a\r\n");
  begin(http, self, SLOW_HEADER, "GET /health HTTP/1.1\r\nX: ");
  begin(http, self, SECOND_HEADER, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
  http_agent_expect_status(http, http_client_response(self->clients[SECOND_HEADER]), 200);
  self->begun_ms[SECOND_HEADER] = wait_now_ms();
  http_client_send(self->clients[SECOND_HEADER], "GET /health HTTP/1.1\r\n");
  begin(http, self, IDLE, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
  http_agent_expect_status(http, http_client_response(self->clients[IDLE]), 200);
  begin(http, self, HALF_BODY, "PUT /steps/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{");
  begin(http, self, SLOW_BODY, "PUT /steps/2 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{");
  begin(http, self, BODY_LATER, "PUT /steps/4 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n");
  begin(http, self, HALF_CHUNK,
        "PUT /steps/3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{");
  begin(http, self, STUCK_RESPONSE, "GET /steps/long HTTP/1.1\r\nHost: a\r\n\r\n");
  begin(http, self, STUCK_STREAM, "GET /steps/long/events HTTP/1.1\r\nHost: a\r\n\r\n");
  begin(http, self, SENDS_UNREAD, "GET  /health HTTP/1.1\r\nHost: a\r\n\r\n");
}

/* The agent has closed both directions of a socket file. */
static bool is_closed(const struct http_client *client) {
  struct pollfd socket = {.fd = http_client_fd(client)};
  return poll(&socket, 1, 0) == 1 && (socket.revents & POLLHUP) != 0;
}

/* A response counts when it arrives; the connection of a client that reads nothing, when the agent
   closes it. */
static bool has_ended(const struct waiting *self, int which) {
  const struct http_client *client = self->clients[which];
  bool reads = which != STUCK_RESPONSE && which != STUCK_STREAM && which != SENDS_UNREAD;
  return reads ? http_client_has_input(client) : is_closed(client);
}

static void send_bytes(struct waiting *self, int64_t tick) {
  if (tick % 2 == 0) {
    (void)http_client_offer(self->clients[SLOW_HEADER], "a", 1);
    (void)http_client_offer(self->clients[SENDS_UNREAD], "a", 1);
  }
  if (tick == 16) {
    self->begun_ms[BODY_LATER] = wait_now_ms();
    http_client_send(self->clients[BODY_LATER], "\r\n{");
  }
  if (tick == 40 && self->ended_ms[SLOW_BODY] == 0) {
    self->begun_ms[SLOW_BODY] = wait_now_ms();
    http_client_send(self->clients[SLOW_BODY], " ");
  }
}

static bool step_on(void *context) {
  struct waiting *self = context;
  int left = 0;
  for (int i = 0; i < CASES; i++) {
    if (self->ended_ms[i] == 0 && has_ended(self, i))
      self->ended_ms[i] = wait_now_ms();
    left += self->ended_ms[i] == 0;
  }
  return left == 0;
}

static void check(struct http_agent *http, struct waiting *self, int which) {
  int64_t took_ms = self->ended_ms[which] - self->begun_ms[which];
  const struct expected *row = &expected[which];
  print_message("%s: %lld ms\n", row->name, (long long)took_ms);
  if (took_ms < row->after_ms - EARLY_MS || took_ms > row->after_ms + LATE_MS)
    agent_process_fail(http->process, "%s: after %lld ms, not %lld", row->name, (long long)took_ms,
                       (long long)row->after_ms);
  if (which == STUCK_RESPONSE || which == STUCK_STREAM)
    return;
  const struct http_response *response = http_client_response(self->clients[which]);
  if (row->status == 0)
    assert_int_equal(response->status, 0);
  else
    http_agent_expect_error(http, response, row->status,
                            row->status == 408 ? "timeout" : "malformed");
  http_client_expect_closed(self->clients[which]);
}

HTTP_TEST(rejected_keys_are_counted_in_the_log_after_10_s) {
  static const char line[] = "requests without the right key: 2, the last one from the socket file";
  http_agent_start(http, NULL, (const char *const[]){"SANDBOX_HTTP_KEY=0123456789abcdef", NULL});
  int64_t begun_ms = wait_now_ms();
  for (int i = 0; i < 3; i++)
    http_agent_expect_error(
        http, http_client_request(http_agent_connect(http), "GET", "/steps", NULL, NULL), 401,
        "unauthorized");
  agent_process_wait_log(http->process, line);
  int64_t passed_ms = wait_now_ms() - begun_ms;
  assert_true(passed_ms >= 10000 - EARLY_MS && passed_ms <= 10000 + LATE_MS);
}

HTTP_TEST(a_client_has_a_limited_time_for_each_part_of_an_exchange) {
  struct waiting self = {0};
  http_agent_start(http, NULL, NULL);
  run_steps(http);
  begin_all(http, &self);
  for (int64_t tick = 1, begun_ms = wait_now_ms(); !step_on(&self); tick++) {
    if (wait_now_ms() - begun_ms > 75000 + LATE_MS)
      break;
    (void)wait_until(step_on, &self, begun_ms + tick * TICK_MS - wait_now_ms());
    send_bytes(&self, tick);
  }
  for (int i = 0; i < CASES; i++)
    if (self.ended_ms[i] == 0)
      agent_process_fail(http->process, "%s: no end", expected[i].name);
  for (int i = 0; i < CASES; i++)
    check(http, &self, i);
  /* No other step exists. */
  struct http_client *client = http_agent_connect(http);
  http_agent_expect_status(http, http_client_request(client, "DELETE", "/steps/long", NULL, NULL),
                           204);
  http_agent_expect_no_step(http);
}
