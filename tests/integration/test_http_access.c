/* Who may use `agent --http`, and what it says about itself: the key, the rules against web pages,
   the order of the checks, and health. */

#include <sys/stat.h>

#include <cjson/cJSON.h>

#include "tests/support/http_agent.h"
#include "tests/support/http_rows.h"
#include "tests/test.h"
#include "wire/version.h"

#define KEY "0123456789-abcdef"
#define KEY_FIELD "Authorization: Bearer " KEY "\r\n"

static const char *const with_key[] = {"SANDBOX_HTTP_KEY=" KEY, NULL};

/* Sends the request on a new connection. */
static const struct http_response *request(struct http_agent *http, const char *method,
                                           const char *target, const char *fields,
                                           const char *body) {
  return http_client_request(http_agent_connect(http), method, target, fields, body);
}

static void expect(struct http_agent *http, const char *method, const char *target,
                   const char *fields, int status, const char *word) {
  struct http_client *client = http_agent_connect(http);
  const struct http_response *response = http_client_request(client, method, target, fields, NULL);
  const char *fault = http_agent_find_fault(response, status, word);
  if (fault != NULL)
    agent_process_fail(http->process, "%s %s, %s: %s", method, target,
                       fields != NULL ? fields : "no field", fault);
  http_agent_disconnect(http, client);
}

/* --- the address ------------------------------------------------------------------------------ */

HTTP_TEST(the_agent_logs_where_it_listens_and_with_which_key) {
  const char *const file = directory_path(&http->directory, "key");
  const char *const arguments[] = {"--http-key-file", file, NULL};
  http_agent_start(http, NULL, NULL);
  agent_process_wait_log(http->process,
                         formatted("started: pid %d, http %s, no key\n",
                                   (int)agent_process_pid(http->process), http->address));
  http_agent_start_tcp(http, NULL, with_key);
  agent_process_wait_log(http->process,
                         formatted("started: pid %d, http %s, key from "
                                   "SANDBOX_HTTP_KEY\n",
                                   (int)agent_process_pid(http->process), http->address));
  FILE *key = fopen(file, "we");
  assert_non_null(key);
  assert_true(fputs(KEY "\n", key) >= 0);
  assert_int_equal(fclose(key), 0);
  http_agent_start(http, arguments, NULL);
  agent_process_wait_log(http->process, formatted("key from %s\n", file));
  expect(http, "GET", "/steps", NULL, 401, "unauthorized");
  expect(http, "GET", "/steps", KEY_FIELD, 200, NULL);
  assert_string_equal(agent_process_output(http->process), "");
}

HTTP_TEST(a_socket_file_is_only_for_the_user_and_is_removed_at_the_end) {
  struct stat file;
  http_agent_start(http, NULL, NULL);
  assert_int_equal(stat(directory_path(&http->directory, "agent.sock"), &file), 0);
  assert_int_equal(file.st_mode, S_IFSOCK | 0600);
  assert_int_equal(kill(agent_process_pid(http->process), SIGTERM), 0);
  assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), 128 + SIGTERM);
  assert_false(directory_has(&http->directory, "agent.sock"));
}

HTTP_TEST(localhost_is_both_loopback_addresses) {
  struct http_client *client;
  http_agent_start_tcp(http, NULL, NULL);
  const char *port = formatted("%s", strrchr(http->address, ':'));
  for (int i = 0; i < 2; i++) {
    const char *const arguments[] = {"--http", formatted("localhost%s", port), NULL};
    http_agent_start_at(http, formatted("%s%s", i == 0 ? "127.0.0.1" : "[::1]", port), arguments,
                        NULL);
    client = http_agent_connect(http);
    http_agent_expect_status(http, http_client_request(client, "GET", "/health", NULL, NULL), 200);
  }
}

/* --- the key ---------------------------------------------------------------------------------- */

HTTP_TEST(every_route_except_health_needs_the_key) {
  static const struct {
    const char *method, *target;
  } rows[] = {{"GET", "/steps"},           {"PUT", "/steps/1"},    {"GET", "/steps/1"},
              {"POST", "/steps/1/cancel"}, {"DELETE", "/steps/1"}, {"GET", "/steps/1/events"},
              {"GET", "/metrics"},         {"GET", "/nowhere"},    {"PUT", "/health"},
              {"OPTIONS", "/health"},      {"POST", "/execute"},   {"POST", "/mcp"}};
  http_agent_start(http, NULL, with_key);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct http_client *client = http_agent_connect(http);
    const struct http_response *response =
        http_client_request(client, rows[i].method, rows[i].target, NULL, NULL);
    http_agent_expect_error(http, response, 401, "unauthorized");
    assert_string_equal(http_response_field(response, "WWW-Authenticate"), "Bearer");
    http_client_expect_closed(client);
  }
  expect(http, "GET", "/steps", KEY_FIELD, 200, NULL);
}

HTTP_TEST(only_the_key_is_accepted) {
  static const struct {
    const char *fields;
    int status;
  } rows[] = {
      {KEY_FIELD, 200},
      {"authorization: bearer  " KEY " \r\n", 200},
      {"X-Sandbox-Key: " KEY "\r\n", 200},
      {"x-sandbox-key:" KEY "\r\nAuthorization: Basic YTpi\r\n", 200},
      {"X-Sandbox-Key: 0123456789-abcdeF\r\n" KEY_FIELD, 401},
      {"X-Sandbox-Key:\r\n" KEY_FIELD, 401},
      {"Authorization: Bearer 0123456789-abcde\r\n", 401},
      {"Authorization: Bearer 0123456789-abcdefg\r\n", 401},
      {"Authorization: Bearer " KEY " " KEY "\r\n", 401},
      {"Authorization: Bearer " KEY ", Bearer " KEY "\r\n", 401},
      {"Authorization: Bearer\r\n", 401},
      {"Authorization:\r\n", 401},
      {"Authorization: " KEY "\r\n", 401},
      {"Authorization: Basic " KEY "\r\n", 401},
      {"Cookie: key=" KEY "\r\n", 401},
      {KEY_FIELD KEY_FIELD, 400},
      {"X-Sandbox-Key: " KEY "\r\nX-Sandbox-Key: " KEY "\r\n", 400},
  };
  http_agent_start(http, NULL, with_key);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect(http, "GET", "/steps", rows[i].fields, rows[i].status,
           rows[i].status == 401   ? "unauthorized"
           : rows[i].status == 400 ? "malformed"
                                   : NULL);
  expect(http, "GET", "/steps?key=" KEY, NULL, 401, "unauthorized");
}

/* Everything of a response except its date. */
static char *keep(const struct http_response *response) {
  char *date = strstr(response->head, "Date: ");
  assert_non_null(date);
  char *text = strdup(formatted("%.*s%s%s", (int)(date - response->head), response->head,
                                strstr(date, "\r\n"), response->body));
  assert_non_null(text);
  return text;
}

HTTP_TEST(a_missing_and_a_wrong_key_get_the_same_response) {
  http_agent_start(http, NULL, with_key);
  char *missing = keep(request(http, "GET", "/steps", NULL, NULL));
  char *wrong = keep(request(http, "GET", "/steps", "X-Sandbox-Key: 0123456789-abcdeF\r\n", NULL));
  assert_string_equal(missing, wrong);
  free(missing);
  free(wrong);
}

HTTP_TEST(the_body_of_an_unauthorised_request_is_not_a_request) {
  http_agent_start(http, NULL, with_key);
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, "PUT /steps/1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                           "Content-Length: 118\r\n\r\n");
  http_agent_expect_error(http, http_client_response(client), 401, "unauthorized");
  (void)http_client_offer(client, HTTP_ROW_FOLLOWER, strlen(HTTP_ROW_FOLLOWER));
  (void)http_client_offer(client, HTTP_ROW_FOLLOWER, strlen(HTTP_ROW_FOLLOWER));
  http_client_expect_closed(client);
  const struct http_response *response = request(http, "GET", "/steps", KEY_FIELD, NULL);
  assert_string_equal(response->body, "{\"steps\":[]}\n");
}

HTTP_TEST(rejected_keys_are_counted_in_the_log_which_shows_none) {
  http_agent_start_tcp(http, NULL, with_key);
  for (int i = 0; i < 50; i++)
    expect(http, "GET", "/steps", formatted("X-Sandbox-Key: guessed-%d\r\n", i), 401,
           "unauthorized");
  agent_process_wait_log(http->process, "127.0.0.1");
  assert_int_equal(agent_process_count_log(http->process, "right key"), 1);
  assert_int_equal(agent_process_count_log(http->process, "guessed"), 0);
  assert_int_equal(kill(agent_process_pid(http->process), SIGTERM), 0);
  assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), 128 + SIGTERM);
  agent_process_wait_log(http->process,
                         "requests without the right key: 49, the last one from 127");
}

/* --- web pages -------------------------------------------------------------------------------- */

HTTP_TEST(a_request_of_a_web_page_is_refused) {
  static const char *const origins[] = {"http://example.com", "null", "http://localhost:3000", "",
                                        "http://127.0.0.1"};
  for (int has_key = 0; has_key < 2; has_key++) {
    http_agent_start(http, NULL, has_key ? with_key : NULL);
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++) {
      const char *fields = formatted("Origin: %s\r\n" KEY_FIELD, origins[i]);
      expect(http, "GET", "/health", fields, 403, "origin");
      expect(http, "PUT", "/steps/1", fields, 403, "origin");
      expect(http, "GET", "/nowhere", fields, 403, "origin");
      expect(http, "OPTIONS", "/steps/1", fields, 403, "origin");
    }
  }
  expect(http, "OPTIONS", "/steps/1", KEY_FIELD, 405, "method");
}

static void expect_host(struct http_agent *http, const char *host, int status) {
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, formatted("GET /health HTTP/1.1\r\nHost: %s\r\n\r\n", host));
  const struct http_response *response = http_client_response(client);
  const char *fault = http_agent_find_fault(response, status, status == 421 ? "host" : NULL);
  if (fault != NULL)
    agent_process_fail(http->process, "%s: %s", host, fault);
  http_agent_disconnect(http, client);
}

HTTP_TEST(without_a_key_the_host_is_this_machine_or_a_name_of_http_open) {
  static const char *const own[] = {"localhost", "LocalHost:1", "127.0.0.1:28417",
                                    "192.0.2.7", "[::1]:28417", "[2001:db8::1]"};
  static const char *const others[] = {
      "example.com", "localhost.example.com:28417", "127.0.0.1.a", "1", "0x7f000001", "localhost."};
  const char *const arguments[] = {"--http-open=sandbox,example.com", NULL};
  http_agent_start_tcp(http, NULL, NULL);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    expect_host(http, own[i], 200);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    expect_host(http, others[i], 421);
  http_agent_start_tcp(http, arguments, NULL);
  expect_host(http, "Sandbox:80", 200);
  expect_host(http, "example.com", 200);
  expect_host(http, "a.example.com", 421);
  http_agent_start_tcp(http, NULL, with_key);
  expect_host(http, "example.com", 200);
  http_agent_start(http, NULL, NULL);
  expect_host(http, "example.com", 200); /* no browser connects to a socket file */
}

/* --- the order of the checks ------------------------------------------------------------------ */

HTTP_TEST(the_first_fault_in_the_order_of_the_checks_counts) {
  static const char step[] = "{\"command\":\"true\"}";
  static const struct {
    const char *method, *target, *fields;
    int status;
  } rows[] = {
      {"GET", "/nowhere", "X : b\r\nOrigin: http://a\r\n", 400},
      {"GET", "/nowhere", "Origin: http://a\r\n", 403},
      {"GET", "/nowhere", "Sandbox-Instance: a\r\n", 401},
      {"PUT", "/steps/1", "Content-Length: 999999999999\r\n", 401},
      {"PATCH", "/nowhere", KEY_FIELD "Sandbox-Instance: a\r\n", 404},
      {"PUT", "/nowhere", KEY_FIELD "Content-Length: 999999999999\r\n", 404},
      {"PATCH", "/steps/1", KEY_FIELD "Sandbox-Instance: a\r\n", 405},
      {"POST", "/steps/1", KEY_FIELD "Content-Length: 999999999999\r\n", 405},
      {"PUT", "/steps/1", KEY_FIELD "Sandbox-Instance: a\r\nContent-Length: 999999999999\r\n", 412},
      {"PUT", "/steps/1", KEY_FIELD "Content-Length: 999999999999\r\n", 413},
  };
  http_agent_start(http, NULL, with_key);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect(http, rows[i].method, rows[i].target, rows[i].fields, rows[i].status, NULL);
  const struct http_response *response =
      request(http, "PUT", "/steps/1", KEY_FIELD "Sandbox-Instance: 0123456789abcdef\r\n", step);
  http_agent_expect_error(http, response, 412, "restarted");
  const char *fields = formatted(KEY_FIELD "Sandbox-Instance: %s\r\n",
                                 http_response_field(response, "Sandbox-Instance"));
  expect(http, "GET", "/steps/1", fields, 404, "not_found");
  http_agent_expect_status(http, request(http, "PUT", "/steps/1", fields, step), 202);
}

HTTP_TEST(a_method_that_a_path_does_not_have_is_405_and_names_the_others) {
  static const struct {
    const char *method, *target, *allow;
  } rows[] = {{"POST", "/health", "GET, HEAD"},
              {"PUT", "/steps", "GET"},
              {"POST", "/steps/1", "PUT, GET, DELETE"},
              {"GET", "/steps/1/cancel", "POST"},
              {"DELETE", "/steps/1/events", "GET"},
              {"HEAD", "/steps", "GET"},
              {"OPTIONS", "/steps", "GET"},
              {"TRACE", "/health", "GET, HEAD"}};
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const struct http_response *response =
        request(http, rows[i].method, rows[i].target, NULL, NULL);
    http_agent_expect_status(http, response, 405);
    const char *allow = http_response_field(response, "Allow");
    size_t found = 0, wanted = 0;
    for (const char *word; (word = nth_word(rows[i].allow, wanted)) != NULL; wanted++)
      found += allow != NULL && strstr(allow, formatted("%.*s", (int)strcspn(word, ","), word));
    if (found != wanted || strlen(allow) != strlen(rows[i].allow))
      fail_msg("%s %s: Allow: %s", rows[i].method, rows[i].target, allow);
  }
}

/* --- health ----------------------------------------------------------------------------------- */

static cJSON *read_health(struct http_agent *http, const char *fields) {
  const struct http_response *response = request(http, "GET", "/health", fields, NULL);
  http_agent_expect_status(http, response, 200);
  assert_string_equal(http_response_field(response, "Content-Type"), "application/json");
  cJSON *health = cJSON_Parse(response->body);
  assert_non_null(health);
  return health;
}

static const char *text_of(const cJSON *health, const char *name) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(health, name));
  return text != NULL ? text : "";
}

static int number_of(const cJSON *health, const char *name) {
  const cJSON *number = cJSON_GetObjectItem(health, name);
  if (!cJSON_IsNumber(number))
    fail_msg("no number %s", name);
  return number->valueint;
}

HTTP_TEST(health_without_the_key_says_only_that_the_agent_is_there) {
  http_agent_start(http, NULL, with_key);
  assert_string_equal(request(http, "GET", "/health", NULL, NULL)->body, "{\"status\":\"ok\"}\n");
  struct http_client *client = http_agent_connect(http);
  const struct http_response *response = http_client_request(client, "HEAD", "/health", NULL, NULL);
  http_agent_expect_status(http, response, 200);
  http_agent_expect_status(http, http_client_request(client, "GET", "/health", NULL, NULL), 200);
  expect(http, "GET", "/health", "X-Sandbox-Key: 0123456789-abcdeF\r\n", 401, "unauthorized");
}

HTTP_TEST(health_describes_the_agent_to_an_authorised_client) {
  const char *const arguments[] = {"--job-id", "pipe-42", NULL};
  http_agent_start(http, arguments, with_key);
  cJSON *health = read_health(http, KEY_FIELD);
  assert_string_equal(text_of(health, "status"), "ok");
  assert_string_equal(text_of(health, "mode"), "steps");
  assert_string_equal(text_of(health, "version"), SANDBOX_VERSION);
  assert_string_equal(text_of(health, "job"), "pipe-42");
  assert_int_equal(number_of(health, "protocol"), 2);
  assert_int_equal(number_of(health, "protocolMin"), 1);
  assert_int_equal(number_of(health, "pid"), agent_process_pid(http->process));
  assert_in_range(number_of(health, "uptimeSeconds"), 0, 600);
  assert_int_equal(number_of(health, "waiting"), 0);
  assert_int_equal(number_of(health, "unread"), 0);
  assert_true(cJSON_IsArray(cJSON_GetObjectItem(health, "features")));
  const struct http_response *response = request(http, "GET", "/health", KEY_FIELD, NULL);
  assert_string_equal(text_of(health, "instance"),
                      http_response_field(response, "Sandbox-Instance"));
  cJSON_Delete(health);
}

HTTP_TEST(health_counts_steps_and_has_a_job_only_if_there_is_one) {
  http_agent_start(http, NULL, NULL);
  http_agent_put_gate(http, "first", "gate");
  http_agent_expect_status(http, request(http, "PUT", "/steps/2", NULL, HTTP_ROW_STEP), 202);
  cJSON *health = read_health(http, NULL);
  assert_null(cJSON_GetObjectItem(health, "job"));
  assert_string_equal(text_of(health, "stepInFlight"), "first");
  assert_int_equal(number_of(health, "waiting"), 1);
  cJSON_Delete(health);
  http_agent_open_gate(http, "gate");
  http_agent_expect_status(http, request(http, "GET", "/steps/2?wait=60", NULL, NULL), 200);
  health = read_health(http, NULL);
  assert_int_equal(number_of(health, "waiting"), 0);
  assert_int_equal(number_of(health, "unread"), 1);
  cJSON_Delete(health);
}

HTTP_TEST(each_agent_has_an_instance_of_its_own) {
  http_agent_start(http, NULL, NULL);
  char *first =
      strdup(http_response_field(request(http, "GET", "/health", NULL, NULL), "Sandbox-Instance"));
  assert_non_null(first);
  http_agent_start(http, NULL, NULL);
  const struct http_response *response = request(http, "GET", "/nowhere", NULL, NULL);
  assert_string_not_equal(http_response_field(response, "Sandbox-Instance"), first);
  expect(http, "GET", "/steps", formatted("Sandbox-Instance: %s\r\n", first), 412, "restarted");
  free(first);
}
