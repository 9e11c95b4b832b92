#include "tests/support/http_steps.h"

#include "tests/support/gate.h"
#include "tests/test.h"

/* --- what the test does not free -------------------------------------------------------------- */

enum { KEPT = 64 };

static char *keep_text(char *text) {
  static char *texts[KEPT];
  static unsigned next;
  assert_non_null(text);
  free(texts[next % KEPT]);
  return texts[next++ % KEPT] = text;
}

static cJSON *keep_json(cJSON *json) {
  static cJSON *values[KEPT];
  static unsigned next;
  cJSON_Delete(values[next % KEPT]);
  return values[next++ % KEPT] = json;
}

/* --- requests --------------------------------------------------------------------------------- */

/* Returns the body, to be freed: what is asked repeatedly must not displace what a test holds. */
static char *ask(struct http_agent *http, int status, const char *method, const char *target,
                 const char *fields, const char *body) {
  struct http_client *client = http_client_connect(http->address);
  const struct http_response *response = http_client_request(client, method, target, fields, body);
  http_agent_expect_status(http, response, status);
  char *text = strdup(response->body);
  assert_non_null(text);
  http_client_free(client);
  return text;
}

const char *http_steps_ask(struct http_agent *http, int status, const char *method,
                           const char *target, const char *fields, const char *body) {
  return keep_text(ask(http, status, method, target, fields, body));
}

const cJSON *http_steps_ask_json(struct http_agent *http, int status, const char *method,
                                 const char *target, const char *fields, const char *body) {
  const char *text = http_steps_ask(http, status, method, target, fields, body);
  const cJSON *json = keep_json(cJSON_Parse(text));
  if (json == NULL)
    fail_msg("%s %s: not JSON: %s", method, target, text);
  return json;
}

void http_steps_expect_error(struct http_agent *http, int status, const char *word,
                             const char *method, const char *target, const char *body) {
  struct http_client *client = http_client_connect(http->address);
  http_agent_expect_error(http, http_client_request(client, method, target, NULL, body), status,
                          word);
  http_client_free(client);
}

const char *http_steps_text(const cJSON *json, const char *member) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(json, member));
  if (text == NULL)
    fail_msg("no text %s in %s", member, cJSON_PrintUnformatted(json));
  return text;
}

double http_steps_number(const cJSON *json, const char *member) {
  const cJSON *number = cJSON_GetObjectItem(json, member);
  if (!cJSON_IsNumber(number))
    fail_msg("no number %s in %s", member, cJSON_PrintUnformatted(json));
  return number->valuedouble;
}

double http_steps_metric(struct http_agent *http, const char *sample) {
  char *text = ask(http, 200, "GET", "/metrics", NULL, NULL);
  char start[128];
  snprintf(start, sizeof start, "\n%s ", sample);
  const char *line = strstr(text, start);
  if (line == NULL)
    fail_msg("no %s in %s", sample, text);
  double value = line != NULL ? strtod(line + strlen(start), NULL) : 0;
  free(text);
  return value;
}

double http_steps_health(struct http_agent *http, const char *member) {
  return http_steps_number(http_steps_ask_json(http, 200, "GET", "/health", NULL, NULL), member);
}

const char *http_steps_file(struct http_agent *http, const char *name) {
  FILE *file = fopen(directory_path(&http->directory, name), "re");
  char *text = calloc(1, 1 << 20);
  assert_non_null(text);
  if (file != NULL) {
    assert_true(fread(text, 1, (1 << 20) - 1, file) < (1 << 20) - 1);
    (void)fclose(file);
  }
  return keep_text(text);
}

/* --- steps ------------------------------------------------------------------------------------ */

const char *http_steps_script(const char *script) {
  struct buffer text = {0};
  buffer_add_format(&text, "cd $HTTP_DIRECTORY; %s", script);
  *buffer_space(&text, 1) = '\0';
  cJSON *step = cJSON_CreateObject();
  const char *const arguments[] = {"-c", text.bytes};
  cJSON_AddStringToObject(step, "command", "sh");
  cJSON_AddItemToObject(step, "args", cJSON_CreateStringArray(arguments, 2));
  const char *json = keep_text(cJSON_PrintUnformatted(step));
  cJSON_Delete(step);
  buffer_release(&text);
  return json;
}

const cJSON *http_steps_put(struct http_agent *http, const char *id, const char *step) {
  return http_steps_ask_json(http, 202, "PUT", formatted("/steps/%s", id), NULL, step);
}

const cJSON *http_steps_result(struct http_agent *http, const char *id) {
  return http_steps_ask_json(http, 200, "GET", formatted("/steps/%s?wait=60", id), NULL, NULL);
}

const cJSON *http_steps_run(struct http_agent *http, const char *id, const char *step) {
  (void)http_steps_put(http, id, step);
  return http_steps_result(http, id);
}

void http_steps_hold(struct http_agent *http, const char *id, const char *script) {
  const char *begun = formatted("%s-begun", id);
  (void)http_steps_put(
      http, id, http_steps_script(formatted("%s\n: >%s; " GATE("%s"), script, begun, id, id)));
  http_agent_wait_file(http, begun);
}

struct query {
  struct http_agent *http;
  const char *id, *state;
  double count;
};

static bool matches(const struct query *query, const cJSON *step) {
  if (strcmp(http_steps_text(step, "stepId"), query->id) != 0)
    return false;
  return query->state != NULL ? strcmp(http_steps_text(step, "state"), query->state) == 0
                              : http_steps_number(step, "lastSeq") >= query->count;
}

static bool is_reached(void *context) {
  const struct query *query = context;
  char *text = ask(query->http, 200, "GET", "/steps", NULL, NULL);
  cJSON *list = cJSON_Parse(text);
  const cJSON *step;
  bool is_found = false;
  cJSON_ArrayForEach(step, cJSON_GetObjectItem(list, "steps")) is_found |= matches(query, step);
  cJSON_Delete(list);
  free(text);
  return is_found;
}

void http_steps_wait_state(struct http_agent *http, const char *id, const char *state) {
  if (!wait_until(is_reached, &(struct query){http, id, state, 0}, WAIT_BOUND_MS))
    agent_process_fail(http->process, "step %s is not %s", id, state);
}

void http_steps_wait_events(struct http_agent *http, const char *id, double count) {
  if (!wait_until(is_reached, &(struct query){http, id, NULL, count}, WAIT_BOUND_MS))
    agent_process_fail(http->process, "step %s has not %g events", id, count);
}

/* --- streams ---------------------------------------------------------------------------------- */

struct http_stream {
  struct http_client *client;
  bool is_sse;
  double last_seq, missing;
  int silences;
  bool has_result;
  struct buffer line; /* the JSON of server-sent events */
};

static void add_field(struct buffer *field, const char *text) {
  field->length = 0;
  buffer_add_string(field, text);
  *buffer_space(field, 1) = '\0';
}

/* The number after which the stream begins. */
static double first_after(const char *target) {
  const char *after = strstr(target, "after=");
  return after != NULL ? strtod(after + 6, NULL) : 0;
}

struct http_stream *http_stream_of(struct http_agent *http, struct http_client *client) {
  const struct http_response *response = http_client_begin_response(client);
  struct http_stream *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->client = client;
  http_agent_expect_status(http, response, 200);
  const char *type = http_response_field(response, "Content-Type");
  const char *buffering = http_response_field(response, "X-Accel-Buffering");
  assert_non_null(type);
  self->is_sse = strcmp(type, "text/event-stream") == 0;
  if (!self->is_sse)
    assert_string_equal(type, "application/x-ndjson");
  assert_string_equal(buffering != NULL ? buffering : "", "no");
  assert_true(response->is_chunked);
  if (self->is_sse) {
    const char *retry = http_client_line(client);
    assert_string_equal(retry != NULL ? retry : "", "retry: 1000");
    retry = http_client_line(client);
    assert_string_equal(retry != NULL ? retry : "-", "");
  }
  return self;
}

struct http_stream *http_stream_put(struct http_agent *http, const char *target, const char *fields,
                                    const char *body) {
  struct http_client *client = http_client_connect(http->address);
  http_client_send_request(client, body != NULL ? "PUT" : "GET", target, fields, body);
  struct http_stream *self = http_stream_of(http, client);
  self->last_seq = first_after(target);
  if (self->is_sse != (fields != NULL && strcasestr(fields, "event-stream") != NULL))
    fail_msg("another form of stream than that of %s", fields != NULL ? fields : "(none)");
  if (fields != NULL && strstr(fields, "Last-Event-ID: ") != NULL)
    self->last_seq = strtod(strstr(fields, "Last-Event-ID: ") + 15, NULL);
  return self;
}

struct http_stream *http_stream_open(struct http_agent *http, const char *target,
                                     const char *fields) {
  return http_stream_put(http, target, fields, NULL);
}

void http_stream_free(struct http_stream *self) {
  if (self == NULL)
    return;
  http_client_free(self->client);
  buffer_release(&self->line);
  free(self);
}

struct http_client *http_stream_client(struct http_stream *self) {
  return self->client;
}

double http_stream_last_seq(const struct http_stream *self) {
  return self->last_seq;
}

double http_stream_missing(const struct http_stream *self) {
  return self->missing;
}

int http_stream_silences(const struct http_stream *self) {
  return self->silences;
}

bool http_stream_has_result(const struct http_stream *self) {
  return self->has_result && http_client_is_whole(self->client);
}

/* Checks the number of an event, a gap or a result; `id` is that of the server-sent event. */
static void check_line(struct http_stream *self, const char *text, const char *id,
                       const char *name) {
  cJSON *json = cJSON_Parse(text);
  const cJSON *seq = cJSON_GetObjectItem(json, "seq");
  const cJSON *first = cJSON_GetObjectItem(json, "firstSeq");
  if (json == NULL || self->has_result)
    fail_msg("%s: %s", json == NULL ? "not JSON" : "a line follows the result", text);
  self->has_result = seq == NULL;
  if (self->has_result && cJSON_GetObjectItem(json, "exitCode") == NULL)
    fail_msg("neither an event nor a result: %s", text);
  double begins = first != NULL ? first->valuedouble : seq != NULL ? seq->valuedouble : 0;
  if (seq != NULL && begins != self->last_seq + 1)
    fail_msg("event %g follows %g: %s", begins, self->last_seq, text);
  if (self->has_result && http_steps_number(json, "eventCount") != self->last_seq)
    fail_msg("the result follows event %g: %s", self->last_seq, text);
  if (self->is_sse && seq != NULL && (id == NULL || strtod(id, NULL) != seq->valuedouble))
    fail_msg("the id is %s: %s", id != NULL ? id : "(none)", text);
  if (self->is_sse && seq == NULL && (id != NULL || name == NULL || strcmp(name, "result") != 0))
    fail_msg("the result is not the event `result`, or has an id: %s", text);
  if (first != NULL && seq != NULL)
    self->missing += seq->valuedouble - first->valuedouble + 1;
  if (seq != NULL)
    self->last_seq = seq->valuedouble;
  cJSON_Delete(json);
}

/* Reads one server-sent event; comments are skipped. Returns false at the end. */
static bool read_sent_event(struct http_stream *self, struct buffer *id, struct buffer *name) {
  const char *line;
  self->line.length = id->length = name->length = 0;
  while ((line = http_client_line(self->client)) != NULL) {
    if (*line == '\0' && self->line.length > 0)
      return true;
    if (*line == ':')
      self->silences++;
    else if (strncmp(line, "id: ", 4) == 0)
      add_field(id, line + 4);
    else if (strncmp(line, "event: ", 7) == 0)
      add_field(name, line + 7);
    else if (strncmp(line, "data: ", 6) == 0)
      add_field(&self->line, line + 6);
    else if (*line != '\0')
      fail_msg("not a line of server-sent events: %s", line);
  }
  return false;
}

static const char *next_sent_event(struct http_stream *self) {
  struct buffer id = {0}, name = {0};
  bool has_event = read_sent_event(self, &id, &name);
  if (has_event)
    check_line(self, self->line.bytes, id.length > 0 ? id.bytes : NULL,
               name.length > 0 ? name.bytes : NULL);
  buffer_release(&id);
  buffer_release(&name);
  return has_event ? self->line.bytes : NULL;
}

const char *http_stream_next(struct http_stream *self) {
  if (self->is_sse)
    return next_sent_event(self);
  const char *line;
  while ((line = http_client_line(self->client)) != NULL && *line == '\0')
    self->silences++;
  if (line != NULL)
    check_line(self, line, NULL, NULL);
  return line;
}

char *http_stream_read_all(struct http_stream *self) {
  struct buffer all = {0};
  const char *line;
  while ((line = http_stream_next(self)) != NULL)
    buffer_add_format(&all, "%s\n", line);
  *buffer_space(&all, 1) = '\0';
  if (!http_stream_has_result(self))
    fail_msg("the stream ends without a result: %s", all.bytes);
  return all.bytes;
}

char *http_stream_all(struct http_agent *http, const char *target, const char *fields) {
  struct http_stream *self = http_stream_open(http, target, fields);
  char *all = http_stream_read_all(self);
  http_stream_free(self);
  return all;
}
