/* GET /metrics: OpenMetrics text, whose values follow what happens (docs/http.md). */

#include <ctype.h>

#include "tests/support/http_steps.h"
#include "tests/test.h"

TEST_OVERLAP(3)

#define TRUE_STEP "{\"command\":\"true\"}"
#define KEY "0123456789abcdef"
#define WITH_KEY "Authorization: Bearer " KEY "\r\n"

/* --- a strict reader of OpenMetrics 1.0.0 ----------------------------------------------------- */

enum { FAMILIES_MAX = 64, NAME_SIZE = 128 };

struct family {
  char name[NAME_SIZE];
  const char *type;
  bool has_unit, has_help;
  int samples;
};

struct exposition {
  struct family families[FAMILIES_MAX];
  int count;
  char samples[FAMILIES_MAX][NAME_SIZE]; /* with their labels: none may occur twice */
  int sample_count;
  bool has_ended;
};

static void reject(const char *line, const char *why) {
  fail_msg("%s: %s", why, line);
}

static size_t name_length(const char *text) {
  size_t length = 0;
  while (isalnum((unsigned char)text[length]) || text[length] == '_' || text[length] == ':')
    length++;
  return isdigit((unsigned char)*text) ? 0 : length;
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text);
  return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static struct family *last_family(struct exposition *self) {
  return self->count > 0 ? &self->families[self->count - 1] : NULL;
}

static void begin_family(struct exposition *self, const char *line, const char *name,
                         const char *type) {
  static const char *const types[] = {"counter", "gauge", "info"};
  const char *known = NULL;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(type, types[i]) == 0)
      known = types[i];
  for (int i = 0; i < self->count; i++)
    if (strcmp(self->families[i].name, name) == 0)
      reject(line, "a second family of this name");
  if (known == NULL || ends_with(name, "_total") || ends_with(name, "_info"))
    reject(line, "not a type, or a reserved name");
  if (self->count > 0 && last_family(self)->samples == 0)
    reject(line, "the family before has no sample");
  assert_true(self->count < FAMILIES_MAX);
  struct family *family = &self->families[self->count++];
  *family = (struct family){.type = known};
  snprintf(family->name, sizeof family->name, "%s", name);
}

/* "# TYPE name type", "# UNIT name unit" and "# HELP name text", in this order. */
static void read_comment(struct exposition *self, const char *line) {
  char word[8] = "", name[NAME_SIZE] = "", rest[512] = "";
  struct family *family = last_family(self);
  if (strcmp(line, "# EOF") == 0) {
    self->has_ended = true;
    return;
  }
  if (sscanf(line, "# %7s %127s %511[^\n]", word, name, rest) != 3 ||
      name_length(name) != strlen(name))
    reject(line, "not a line of metadata");
  if (strcmp(word, "TYPE") == 0) {
    begin_family(self, line, name, rest);
    return;
  }
  if (family == NULL || strcmp(family->name, name) != 0 || family->samples > 0 || family->has_help)
    reject(line, "out of order");
  if (strcmp(word, "UNIT") == 0) {
    if (family->has_unit || !ends_with(name, rest))
      reject(line, "the name does not end with the unit");
    family->has_unit = true;
  } else if (strcmp(word, "HELP") != 0) {
    reject(line, "not a line of metadata");
  } else {
    family->has_help = true;
  }
}

/* {name="value",…} without escapes; returns what follows. */
static const char *skip_labels(const char *line, const char *at) {
  if (*at != '{')
    return at;
  do {
    size_t length = name_length(++at);
    if (length == 0 || at[length] != '=' || at[length + 1] != '"')
      reject(line, "not a label");
    at += length + 2;
    at += strcspn(at, "\"\\\n");
    if (*at++ != '"')
      reject(line, "not the value of a label");
  } while (*at == ',');
  if (*at != '}')
    reject(line, "the labels do not end");
  return at + 1;
}

static void read_sample(struct exposition *self, const char *line) {
  struct family *family = last_family(self);
  size_t length = name_length(line);
  const char *suffix = family == NULL                         ? ""
                       : strcmp(family->type, "counter") == 0 ? "_total"
                       : strcmp(family->type, "info") == 0    ? "_info"
                                                              : "";
  if (family == NULL || length != strlen(family->name) + strlen(suffix) ||
      strncmp(line, family->name, strlen(family->name)) != 0 ||
      strncmp(line + strlen(family->name), suffix, strlen(suffix)) != 0)
    reject(line, "not a sample of the family before it");
  const char *value = skip_labels(line, line + length);
  char *end;
  if (*value != ' ' || (!isdigit((unsigned char)value[1])))
    reject(line, "not a value that is at least 0");
  (void)strtod(value + 1, &end);
  if (*end != '\0')
    reject(line, "something follows the value");
  assert_true(self->sample_count < FAMILIES_MAX);
  char *name = self->samples[self->sample_count++];
  snprintf(name, NAME_SIZE, "%.*s", (int)(value - line), line);
  for (int i = 0; i + 1 < self->sample_count; i++)
    if (strcmp(self->samples[i], name) == 0)
      reject(line, "this sample occurs twice");
  family->samples++;
}

static void expect_valid(const char *text) {
  struct exposition *self = calloc(1, sizeof *self);
  char *copy = strdup(text), *rest = copy;
  assert_non_null(self);
  assert_non_null(copy);
  if (!ends_with(text, "# EOF\n"))
    fail_msg("the text does not end with `# EOF`: %s", text);
  for (char *line; (line = strsep(&rest, "\n")) != NULL && rest != NULL;) {
    if (self->has_ended || *line == '\0')
      reject(line, "an empty line, or one behind the end");
    if (*line == '#')
      read_comment(self, line);
    else
      read_sample(self, line);
  }
  assert_true(self->count > 0 && last_family(self)->samples > 0);
  free(copy);
  free(self);
}

/* --- form and access -------------------------------------------------------------------------- */

HTTP_TEST(metrics_are_valid_openmetrics) {
  http_agent_start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  const struct http_response *response = http_client_request(client, "GET", "/metrics", NULL, NULL);
  http_agent_expect_status(http, response, 200);
  assert_string_equal(http_response_field(response, "Content-Type"),
                      "application/openmetrics-text; version=1.0.0; charset=utf-8");
  expect_valid(response->body);
  (void)http_steps_run(http, "1", TRUE_STEP);
  http_steps_hold(http, "2", "seq 1000");
  (void)http_steps_put(http, "3", TRUE_STEP);
  expect_valid(http_client_request(client, "GET", "/metrics", NULL, NULL)->body);
}

HTTP_TEST(metrics_need_the_key) {
  http_agent_start(http, NULL, (const char *const[]){"SANDBOX_HTTP_KEY=" KEY, NULL});
  http_steps_expect_error(http, 401, "unauthorized", "GET", "/metrics", NULL);
  struct http_client *client = http_agent_connect(http);
  http_agent_expect_error(
      http,
      http_client_request(client, "GET", "/metrics", "X-Sandbox-Key: 0123456789abcdeF\r\n", NULL),
      401, "unauthorized");
  const char *text = http_steps_ask(http, 200, "GET", "/metrics", WITH_KEY, NULL);
  expect_valid(text);
  assert_null(strstr(text, KEY));
}

HTTP_TEST(metrics_have_only_get) {
  http_agent_start(http, NULL, NULL);
  http_steps_expect_error(http, 405, "method", "POST", "/metrics", "");
  http_steps_expect_error(http, 405, "method", "DELETE", "/metrics", NULL);
}

/* --- values ----------------------------------------------------------------------------------- */

static void expect_metric(struct http_agent *http, const char *sample, double expected) {
  double value = http_steps_metric(http, sample);
  if (value != expected)
    fail_msg("%s is %g instead of %g", sample, value, expected);
}

HTTP_TEST(metrics_name_version_and_mode) {
  http_agent_start(http, NULL, NULL);
  const cJSON *health = http_steps_ask_json(http, 200, "GET", "/health", NULL, NULL);
  expect_metric(http,
                formatted("sandbox_agent_info{version=\"%s\",mode=\"steps\"}",
                          http_steps_text(health, "version")),
                1);
  assert_true(http_steps_metric(http, "sandbox_uptime_seconds") < 60);
}

HTTP_TEST(metrics_count_steps_by_their_outcome) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "1", TRUE_STEP);
  (void)http_steps_run(http, "2", TRUE_STEP);
  (void)http_steps_run(http, "3", "{\"command\":\"false\"}");
  (void)http_steps_run(http, "4", "{\"command\":\"no-such-command\"}");
  (void)http_steps_run(http, "5", "{\"kind\":\"readFile\",\"path\":\"/nowhere\"}");
  (void)http_steps_run(http, "6", "{\"command\":\"sleep\",\"args\":[\"60\"],\"timeoutSeconds\":1}");
  http_steps_hold(http, "7", ":");
  (void)http_steps_put(http, "8", TRUE_STEP);
  (void)http_steps_ask(http, 200, "POST", "/steps/8/cancel", NULL, NULL);
  (void)http_steps_ask(http, 202, "POST", "/steps/7/cancel", NULL, NULL);
  (void)http_steps_result(http, "7");
  (void)http_steps_ask(http, 422, "PUT", "/steps/9", NULL, "{}");
  expect_metric(http, "sandbox_steps_total{outcome=\"ok\"}", 2);
  expect_metric(http, "sandbox_steps_total{outcome=\"failed\"}", 3);
  expect_metric(http, "sandbox_steps_total{outcome=\"timed_out\"}", 1);
  expect_metric(http, "sandbox_steps_total{outcome=\"cancelled\"}", 2);
}

HTTP_TEST(metrics_count_running_and_waiting_steps_results_and_events) {
  http_agent_start(http, NULL, NULL);
  expect_metric(http, "sandbox_steps_running", 0);
  expect_metric(http, "sandbox_results_held", 0);
  (void)http_steps_run(http, "1", "{\"command\":\"seq\",\"args\":[\"10\"]}");
  (void)http_steps_put(http, "2", TRUE_STEP);
  http_steps_wait_state(http, "2", "finished");
  http_steps_hold(http, "3", ":");
  (void)http_steps_put(http, "4", TRUE_STEP);
  (void)http_steps_put(http, "5", TRUE_STEP);
  expect_metric(http, "sandbox_steps_running", 1);
  expect_metric(http, "sandbox_steps_waiting", 2);
  expect_metric(http, "sandbox_results_held", 2);
  expect_metric(http, "sandbox_results_unread", 1);
  expect_metric(http, "sandbox_events_held", 12 + 2 + 1);
  (void)http_steps_ask(http, 204, "DELETE", "/steps/1", NULL, NULL);
  expect_metric(http, "sandbox_results_held", 1);
  expect_metric(http, "sandbox_events_held", 2 + 1);
  http_agent_open_gate(http, "3");
  (void)http_steps_result(http, "5");
  expect_metric(http, "sandbox_steps_running", 0);
  expect_metric(http, "sandbox_steps_waiting", 0);
  expect_metric(http, "sandbox_results_held", 4);
  expect_metric(http, "sandbox_results_unread", 3);
}

HTTP_TEST(metrics_count_connections_requests_and_bytes) {
  http_agent_start(http, NULL, NULL);
  struct http_client *client = http_agent_connect(http);
  (void)http_client_request(client, "GET", "/health", NULL, NULL);
  double requests = http_steps_metric(http, "sandbox_http_requests_total");
  double received = http_steps_metric(http, "sandbox_http_received_bytes_total");
  double sent = http_steps_metric(http, "sandbox_http_sent_bytes_total");
  const struct http_response *response = http_client_request(client, "GET", "/steps", NULL, NULL);
  size_t length = strlen(response->head) + response->body_length;
  /* The three requests for metrics, this one and the next one. */
  expect_metric(http, "sandbox_http_requests_total", requests + 4);
  assert_true(http_steps_metric(http, "sandbox_http_received_bytes_total") > received + 100);
  assert_true(http_steps_metric(http, "sandbox_http_sent_bytes_total") > sent + (double)length);
  struct http_client *other = http_agent_connect(http);
  (void)http_client_request(other, "GET", "/health", NULL, NULL);
  expect_metric(http, "sandbox_http_connections", 3);
}

HTTP_TEST(metrics_count_refused_requests) {
  http_agent_start(http, NULL, (const char *const[]){"SANDBOX_HTTP_KEY=" KEY, NULL});
  struct http_client *client = http_agent_connect(http);
  http_steps_expect_error(http, 401, "unauthorized", "GET", "/steps", NULL);
  http_agent_expect_error(
      http, http_client_request(client, "GET", "/steps", WITH_KEY "Origin: http://a\r\n", NULL),
      403, "origin");
  const char *text = http_steps_ask(http, 200, "GET", "/metrics", WITH_KEY, NULL);
  assert_non_null(strstr(text, "\nsandbox_http_refused_requests_total 2\n"));
}

HTTP_TEST(metrics_count_every_request_and_as_refused_those_above_a_limit) {
  static const char begin[] = "GET /";
  char long_target[20000];
  memset(long_target, 'a', sizeof long_target);
  memcpy(long_target, begin, sizeof begin - 1);
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  (void)http_steps_put(http, "end", "{\"kind\":\"shutdown\"}");
  double requests = http_steps_metric(http, "sandbox_http_requests_total");
  double refused = http_steps_metric(http, "sandbox_http_refused_requests_total");
  http_steps_expect_error(http, 503, "ending", "PUT", "/steps/1", TRUE_STEP);
  http_steps_expect_error(http, 404, "not_found", "GET", "/nowhere", NULL);
  http_steps_expect_error(http, 404, "not_found", "GET", "/steps/1", NULL);
  http_steps_expect_error(http, 405, "method", "DELETE", "/steps", NULL);
  struct http_client *client = http_agent_connect(http);
  http_agent_expect_error(
      http, http_client_request(client, "GET", "/steps", "Sandbox-Instance: x\r\n", NULL), 412,
      "restarted");
  http_client_send(client,
                   "PUT /steps/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999\r\n\r\n");
  http_agent_expect_error(http, http_client_response(client), 413, "too_large");
  client = http_agent_connect(http);
  (void)http_client_offer(client, long_target, sizeof long_target);
  http_agent_expect_error(http, http_client_response(client), 431, "too_large");
  /* The two requests for metrics, and these seven. */
  expect_metric(http, "sandbox_http_requests_total", requests + 2 + 7);
  expect_metric(http, "sandbox_http_refused_requests_total", refused + 2);
}
