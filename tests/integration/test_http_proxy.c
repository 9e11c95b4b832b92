/* `agent --http` behind nginx, a proxy that is less strict. Whatever a client sends, the agent
   serves only requests that the proxy has forwarded as requests. */

#include <cjson/cJSON.h>

#include "tests/support/http_agent.h"
#include "tests/support/http_rows.h"
#include "tests/support/nginx.h"
#include "tests/test.h"

TEST_OVERLAP(6)

enum { IDS_MAX = 64 };

/* An agent and a proxy in front of it. `direct` are the requests that the test has sent to the
   agent itself. */
struct setup {
  struct http_agent *http;
  struct nginx *nginx;
  struct http_client *client; /* to the agent itself */
  int direct;
  struct {
    char id[64];
    int count;
  } run[IDS_MAX]; /* the first one with a count of 0 ends it */
};

static void begin(struct setup *self, struct http_agent *http, enum nginx_mode mode) {
  const char *const arguments[] = {"--verbose", NULL};
  http_agent_start(http, arguments, NULL);
  *self = (struct setup){.http = http};
  self->nginx = nginx_start(&http->directory, "agent.sock", mode);
  self->client = http_agent_connect(http);
}

static const struct http_response *ask(struct setup *self, const char *method, const char *target) {
  self->direct++;
  return http_client_request(self->client, method, target, NULL, NULL);
}

/* Sends the row, behind it the request for step `x`, and one that closes the connection; reads
   until the proxy has closed it. */
static void send_row(const struct setup *self, const struct http_row *row) {
  static const char last[] =
      HTTP_ROW_FOLLOWER "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  struct http_client *client = http_client_connect(nginx_address(self->nginx));
  struct buffer text = {0};
  char discarded[4096];
  buffer_add(&text, row->bytes, row->length);
  buffer_add_string(&text, last);
  (void)http_client_offer(client, text.bytes, text.length);
  while (read(http_client_fd(client), discarded, sizeof discarded) > 0)
    continue;
  http_client_free(client);
  buffer_release(&text);
}

/* How often a step with this id was run. */
static int count_run(struct setup *self, const char *id) {
  int i = 0;
  while (self->run[i].count > 0 && strcmp(self->run[i].id, id) != 0)
    i++;
  assert_true(i < IDS_MAX - 1);
  snprintf(self->run[i].id, sizeof self->run[i].id, "%s", id);
  return ++self->run[i].count;
}

struct seen {
  const struct nginx *nginx;
  const char *request;
  int count;
};

static bool is_seen(void *context) {
  const struct seen *seen = context;
  return nginx_count_seen(seen->nginx, seen->request) >= seen->count;
}

/* Fails unless the proxy has seen the request of each step. Removes the steps. */
static void check_steps(struct setup *self, const char *name) {
  cJSON *list = cJSON_Parse(ask(self, "GET", "/steps")->body);
  const cJSON *step;
  cJSON_ArrayForEach(step, cJSON_GetObjectItem(list, "steps")) {
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(step, "stepId"));
    const char *target = formatted("/steps/%s", id);
    struct seen seen = {self->nginx, formatted("PUT %s", target), count_run(self, id)};
    if (!wait_until(is_seen, &seen, WAIT_BOUND_MS))
      fail_msg("%s: step %s was not forwarded", name, id);
    assert_int_equal(ask(self, "GET", formatted("%s?wait=60", target))->status, 200);
    assert_int_equal(ask(self, "DELETE", target)->status, 204);
  }
  cJSON_Delete(list);
}

static bool serves_no_more(void *context) {
  const struct setup *self = context;
  return agent_process_count_log(self->http->process, "DEBUG http ") - self->direct <=
         nginx_count_forwarded(self->nginx);
}

static void expect_nothing_smuggled(struct http_agent *http, enum nginx_mode mode,
                                    enum http_part first, enum http_part last) {
  struct setup self;
  int rows = 0;
  begin(&self, http, mode);
  for (size_t i = 0; i < http_rejected_row_count; i++) {
    const struct http_row *row = &http_rejected_rows[i];
    if (row->part < first || row->part > last)
      continue;
    send_row(&self, row);
    check_steps(&self, row->name);
    if (!wait_until(serves_no_more, &self, WAIT_BOUND_MS))
      fail_msg("%s: the agent serves more requests than it was sent", row->name);
    rows++;
  }
  print_message("%d rows, %d requests forwarded\n", rows, nginx_count_forwarded(self.nginx));
  nginx_stop(self.nginx);
  (void)ask(&self, "GET", "/health");
  assert_int_equal(rows > 0, true);
}

#define SMUGGLING_TESTS(NAME, MODE)                                                                \
  HTTP_TEST(nothing_in_a_header_is_a_request_for_##NAME) {                                         \
    expect_nothing_smuggled(http, MODE, HTTP_LINES, HTTP_HOST);                                    \
  }                                                                                                \
  HTTP_TEST(nothing_in_a_body_is_a_request_for_##NAME) {                                           \
    expect_nothing_smuggled(http, MODE, HTTP_CONTENT_LENGTH, HTTP_BODY);                           \
  }

SMUGGLING_TESTS(an_agent_behind_nginx, NGINX_DEFAULT)
SMUGGLING_TESTS(an_agent_that_shares_connections, NGINX_KEEPALIVE)
SMUGGLING_TESTS(an_agent_that_gets_bodies_as_they_arrive, NGINX_UNBUFFERED)

/* --- what must work --------------------------------------------------------------------------- */

static void expect_served(struct http_agent *http, enum nginx_mode mode) {
  struct setup self;
  begin(&self, http, mode);
  struct http_client *client = http_client_connect(nginx_address(self.nginx));
  http_agent_expect_status(http, http_client_request(client, "GET", "/health", NULL, NULL), 200);
  http_agent_expect_status(
      http, http_client_request(client, "PUT", "/steps/1", NULL, HTTP_ROW_STEP), 202);
  http_client_send(client, "PUT /steps/2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                           "Accept: application/x-ndjson\r\n\r\n" HTTP_ROW_STEP_HEX
                           "\r\n" HTTP_ROW_STEP "\r\n0\r\n\r\n");
  const struct http_response *response = http_client_response(client);
  http_agent_expect_status(http, response, 200);
  assert_non_null(strstr(response->body, "\"exitCode\":0"));
  http_client_free(client);
  nginx_stop(self.nginx);
}

HTTP_TEST(an_agent_behind_nginx_serves_requests_and_streams) {
  expect_served(http, NGINX_DEFAULT);
}

HTTP_TEST(an_agent_that_shares_connections_serves_requests_and_streams) {
  expect_served(http, NGINX_KEEPALIVE);
}

HTTP_TEST(an_agent_that_gets_bodies_as_they_arrive_serves_requests_and_streams) {
  expect_served(http, NGINX_UNBUFFERED);
}
