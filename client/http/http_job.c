#include "client/http/http_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "client/http/http_events.h"
#include "client/redis/json_field.h"
#include "client/steps/history.h"
#include "wire/http_key.h"
#include "wire/json.h"

/* The longest silence before or within an answer. */
#define SILENT_MS 10000

/* A failure is reported after this time. After a signal, a request still waits this long. */
#define REPORT_MS 500
#define STOP_MS 400

/* The pause before a request is repeated, and after an answer that says "later". */
#define RETRY_MS 100
#define BUSY_MS 1000

/* The most bytes of an answer. */
#define ANSWER_MAX ((size_t)80 * 1024 * 1024)

/* --- requests --------------------------------------------------------------------------------- */

/* Whether the last complete line is the last event, or a later one. */
static bool has_last_event(const struct http_job *self) {
  struct event_view view;
  struct buffer space = {0};
  const char *text = self->answer.bytes, *end = memrchr(text, '\n', self->answer.length);
  const char *before = end != NULL ? memrchr(text, '\n', (size_t)(end - text)) : NULL;
  const char *line = before != NULL ? before + 1 : text;
  const bool is_last = end != NULL && end > line &&
                       event_read_json(&view, "", line, (size_t)(end - line), &space) &&
                       view.seq >= self->last_seq;
  buffer_release(&space);
  return is_last;
}

static void on_body(void *owner, const char *bytes, size_t length) {
  struct http_job *self = owner;
  if (self->answer.length + length <= ANSWER_MAX)
    buffer_add(&self->answer, bytes, length);
  else
    self->is_answered = true; /* what is missing makes it invalid */
  if (self->last_seq > 0)
    self->is_answered |= has_last_event(self);
}

static void on_over(void *owner, const struct error *why) {
  struct http_job *self = owner;
  self->is_answered |= why == NULL;
}

static const struct http_link_handler link_handler = {.body = on_body, .over = on_over};

int http_job_explain(int status, const struct buffer *body, struct error *error) {
  struct error ignored;
  cJSON *tree = body->length > 0 ? json_tree_parse(body->bytes, body->length, &ignored) : NULL;
  const char *message = json_field_text(tree, status == 422 ? "errorMessage" : "message", "");
  if (status == 401)
    (void)error_set(error, "the agent wants a key: set SANDBOX_HTTP_KEY");
  else if (status == 412)
    (void)error_set(error, "the agent was restarted, and its steps are gone");
  else
    (void)error_set(error, "the agent answers %d%s%s", status, message[0] != '\0' ? ": " : "",
                    message);
  error->code = status;
  cJSON_Delete(tree);
  return -1;
}

void http_job_report_away(struct http_job *self, const struct http_link *link) {
  const bool is_away = link->lost_ms != 0 && link->why.text[0] != '\0';
  if (link->lost_ms == 0)
    self->is_away_reported = false;
  if (!is_away || self->is_away_reported || self->fails_fast ||
      clock_monotonic_ms() - link->lost_ms < REPORT_MS)
    return;
  self->is_away_reported = true;
  program_say_away(self->program, &link->why);
}

static bool is_stopped(const struct http_job *self, int64_t begin_ms) {
  return self->program->signal != 0 && clock_monotonic_ms() - begin_ms > STOP_MS;
}

/* Sends a request once. Returns the status, or 0 with the error if no agent has answered. */
static int ask(struct http_job *self, const char *method, const char *path,
               const struct buffer *body, struct error *error) {
  struct http_link *link = &self->link;
  const int64_t begin_ms = clock_monotonic_ms();
  self->answer.length = 0;
  self->is_answered = false;
  http_link_send(link, method, path, body != NULL ? body->bytes : NULL,
                 body != NULL ? body->length : 0);
  while (!self->is_answered && link->state != LINK_CLOSED) {
    program_turn(self->program);
    http_job_report_away(self, link);
    const int64_t end_ms = self->program->begin_ms + PROGRAM_PING_MS;
    if (is_stopped(self, begin_ms) || (self->fails_fast && clock_monotonic_ms() > end_ms)) {
      http_link_close(link);
      (void)error_set(&link->why, "%s does not answer", self->peer.url.name);
    }
  }
  if (link->state != LINK_OPEN)
    http_link_close(link);
  if (self->is_answered)
    return link->response.status;
  *error = link->why;
  return 0;
}

/* Whether the agent has no capacity now. */
static bool is_busy(const struct http_job *self, int status) {
  static const char word[] = "\"busy\"";
  const struct buffer *answer = &self->answer;
  return status == 429 || (status == 503 && answer->length > 0 &&
                           memmem(answer->bytes, answer->length, word, sizeof word - 1) != NULL);
}

/* Repeats a request until it is answered. Returns the status, or -1 with the error. */
static int call(struct http_job *self, const char *method, const char *path,
                const struct buffer *body, struct error *error) {
  const int64_t begin_ms = clock_monotonic_ms();
  for (;;) {
    const int status = ask(self, method, path, body, error);
    const bool is_over = clock_monotonic_ms() - begin_ms > ACCESS_TIMEOUT_MS || self->fails_fast ||
                         is_stopped(self, begin_ms);
    if (status == 401 || status == 412)
      return http_job_explain(status, &self->answer, error);
    if (status != 0 && (!is_busy(self, status) || is_over))
      return status;
    if (is_over)
      return -1;
    loop_turn(self->peer.base, status != 0 ? BUSY_MS : RETRY_MS);
  }
}

struct buffer http_job_path(const char *id) {
  struct buffer path = {0};
  buffer_add_string(&path, "/steps/");
  for (; *id != '\0'; id++)
    buffer_add_format(&path,
                      strchr("-_.~", *id) != NULL || (*id >= '0' && *id <= '9') ||
                              ((*id | 0x20) >= 'a' && (*id | 0x20) <= 'z')
                          ? "%c"
                          : "%%%02X",
                      (unsigned char)*id);
  return path;
}

/* Calls a route of a step. */
static int call_step(struct http_job *self, const char *method, const char *id, const char *route,
                     const struct buffer *body, struct error *error) {
  struct buffer path = http_job_path(id);
  buffer_add(&path, route, strlen(route) + 1);
  const int status = call(self, method, path.bytes, body, error);
  buffer_release(&path);
  return status;
}

/* --- the agent -------------------------------------------------------------------------------- */

int http_job_begin(struct program *program, const char *url, struct error *error) {
  struct http_job *self = program->http = memory_zeros(sizeof *self);
  self->program = program;
  self->peer.base = program->base;
  self->peer.key = program->key;
  http_link_init(&self->link, &self->peer, SILENT_MS, &link_handler, self);
  if (http_url_parse(&self->peer.url, url, error) != 0)
    return -1;
  if (self->peer.key == NULL || http_key_check(self->peer.key, error) == 0)
    return 0;
  const struct error why = *error;
  return error_set(error, "SANDBOX_HTTP_KEY: %s", why.text);
}

void http_job_end(struct http_job *self) {
  if (self == NULL)
    return;
  http_link_close(&self->link);
  http_url_release(&self->peer.url);
  buffer_release(&self->answer);
  cJSON_Delete(self->steps);
  free(self->result_id);
  free(self->result);
  free(self);
}

/* Without the key, health is its status alone. */
static int read_health(struct http_job *self, cJSON **health, struct error *error) {
  const int status = call(self, "GET", "/health", NULL, error);
  *health = NULL;
  if (status < 0)
    return -1;
  if (status != 200 && status != 503)
    return http_job_explain(status, &self->answer, error);
  *health = json_tree_parse(self->answer.bytes, self->answer.length, error);
  const char *mode = json_field_text(*health, "mode", "");
  if (mode[0] == '\0')
    return http_job_explain(401, &self->answer, error);
  (void)snprintf(self->peer.instance, sizeof self->peer.instance, "%s",
                 self->link.response.instance);
  return strcmp(mode, "steps") == 0
             ? 0
             : error_set(error, "%s serves %.20s, not steps", self->peer.url.name, mode);
}

static int choose(struct program *program, struct error *error) {
  cJSON *health;
  const int result = read_health(program->http, &health, error);
  const char *job = json_field_text(health, "job", program->http->peer.url.name);
  program->job = program->found_job = memory_copy(job, strlen(job));
  cJSON_Delete(health);
  return result;
}

/* A refused connection is the answer: nobody listens. An agent without capacity is alive. Health
   needs no key, and with the key, a probe would delay the agent's idle limit. */
static int ping(struct program *program, bool *is_alive, struct error *error) {
  struct http_job *self = program->http;
  self->fails_fast = true;
  self->peer.key = NULL;
  program->job = self->peer.url.name;
  const int status = call(self, "GET", "/health", NULL, error);
  *is_alive = status == 200 || is_busy(self, status);
  if (status < 0)
    return error->code == ECONNREFUSED || error->code == ENOENT ? 0 : -1;
  return status == 200 || status == 503 ? 0 : http_job_explain(status, &self->answer, error);
}

static int read_agent(struct program *program, struct job_agent *agent, struct error *error) {
  *agent = (struct job_agent){0};
  if (read_health(program->http, &agent->heartbeat, error) != 0)
    return -1;
  agent->is_alive = true;
  agent->pid = (int)json_field_number(agent->heartbeat, "pid", 0);
  agent->version = json_field_text(agent->heartbeat, "version", NULL);
  return 0;
}

/* --- the list of steps ------------------------------------------------------------------------ */

static bool is_state(const cJSON *step, const char *state) {
  return strcmp(json_field_text(step, "state", ""), state) == 0;
}

const cJSON *http_job_find(const struct http_job *self, const char *id) {
  const cJSON *step;
  cJSON_ArrayForEach(step, cJSON_GetObjectItemCaseSensitive(self->steps, "steps")) {
    if (strcasecmp(json_field_text(step, "stepId", ""), id) == 0)
      return step;
  }
  return NULL;
}

const cJSON *http_job_find_order(const struct http_job *self, unsigned order) {
  const cJSON *step;
  cJSON_ArrayForEach(step, cJSON_GetObjectItemCaseSensitive(self->steps, "steps")) {
    if (json_field_number(step, "order", 0) == order)
      return step;
  }
  return NULL;
}

/* Numbers the steps of one kind. A step keeps its number. */
static void number_steps(struct http_job *self, const cJSON *before, bool finished) {
  const struct http_job earlier = {.steps = (cJSON *)before};
  cJSON *step;
  cJSON_ArrayForEach(step, cJSON_GetObjectItemCaseSensitive(self->steps, "steps")) {
    if (is_state(step, "waiting") || is_state(step, "finished") != finished)
      continue;
    const cJSON *known = http_job_find(&earlier, json_field_text(step, "stepId", ""));
    const double order = json_field_number(known, "order", 0);
    (void)cJSON_AddNumberToObject(step, "order", order > 0 ? order : ++self->last_order);
  }
}

/* The running step is the first of the list, and the newest that has begun. */
int http_job_list(struct http_job *self, struct error *error) {
  const int status = call(self, "GET", "/steps", NULL, error);
  if (status < 0)
    return -1;
  if (status != 200)
    return http_job_explain(status, &self->answer, error);
  cJSON *steps = json_tree_parse(self->answer.bytes, self->answer.length, error);
  if (steps == NULL)
    return -1;
  cJSON *before = self->steps;
  self->steps = steps;
  number_steps(self, before, true);
  number_steps(self, before, false);
  cJSON_Delete(before);
  return 0;
}

static char *copy_field(const cJSON *step, const char *name) {
  const char *text = json_field_text(step, name, "?");
  return memory_copy(text, strlen(text));
}

/* Returns the text of the event `started` without the kind before it. */
static const char *target_of(const cJSON *step) {
  const char *target = json_field_text(step, "target", "");
  const char *kind = json_field_text(step, "kind", "");
  const size_t length = strlen(kind);
  return strncmp(target, kind, length) == 0 && target[length] == ' ' ? target + length + 1 : target;
}

static int read_steps(struct program *program, struct job_steps *steps, struct error *error) {
  const cJSON *step;
  *steps = (struct job_steps){0};
  if (http_job_list(program->http, error) != 0)
    return -1;
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(program->http->steps, "steps");
  steps->list = memory_allocate(((size_t)cJSON_GetArraySize(list) + 1) * sizeof *steps->list);
  cJSON_ArrayForEach(step, list) {
    if (!is_state(step, "finished"))
      steps->list[steps->count++] =
          (struct job_step){.id = copy_field(step, "stepId"),
                            .kind = copy_field(step, "kind"),
                            .target = memory_copy(target_of(step), strlen(target_of(step))),
                            .is_running = is_state(step, "running"),
                            .is_kept = strcmp(json_field_text(step, "kind", ""), "shutdown") == 0,
                            .short_length = 4};
  }
  job_steps_deduplicate(steps);
  return 0;
}

static int find_step(struct program *program, const char *id, struct job_place *place,
                     struct error *error) {
  const cJSON *step;
  *place = (struct job_place){0};
  if (http_job_list(program->http, error) != 0)
    return -1;
  cJSON_ArrayForEach(step, cJSON_GetObjectItemCaseSensitive(program->http->steps, "steps")) {
    if (is_state(step, "running"))
      place->running = copy_field(step, "stepId");
    if (strcasecmp(json_field_text(step, "stepId", ""), id) == 0)
      place->is_found = true;
    place->before += !place->is_found;
  }
  return 0;
}

/* The caller has just read the list. */
static char *describe_running(struct program *program, const char *id) {
  const char *target = target_of(http_job_find(program->http, id));
  return memory_copy(target, strlen(target));
}

/* A step may be dropped meanwhile: it has no events then. */
int http_job_read_events(struct http_job *self, const char *id, uint64_t last_seq,
                         struct error *error) {
  self->last_seq = last_seq;
  const int status = call_step(self, "GET", id, "/events", NULL, error);
  self->last_seq = 0;
  if (status == 404 || status == 410)
    self->answer.length = 0;
  else if (status > 0 && status != 200)
    return http_job_explain(status, &self->answer, error);
  return status > 0 ? 0 : -1;
}

/* --- a step ----------------------------------------------------------------------------------- */

/* The same step may be put again: the agent runs it once. */
static int push(struct program *program, void *source, const char *id, const char *json,
                struct error *error) {
  struct http_job *self = program->http;
  const struct buffer body = {.bytes = (char *)json, .length = strlen(json)};
  if (source != NULL && http_events_push(source, json))
    return 0;
  const int status = call_step(self, "PUT", id, "", &body, error);
  if (status == 200 || status == 202)
    return 0;
  if (status > 0)
    return http_job_explain(status, &self->answer, error);
  const struct error why = *error;
  if (why.code >= 400) /* a status */
    return -1;
  return error_set(error, "%s; %.36s may still run", why.text, id);
}

/* The stream of the events had it. */
static int take_result(struct program *program, const char *id, char **result,
                       struct error *error) {
  struct http_job *self = program->http;
  (void)error;
  *result = NULL;
  if (self->result_id != NULL && strcasecmp(self->result_id, id) == 0) {
    *result = self->result;
    self->result = NULL;
  }
  return 0;
}

static int cancel(struct program *program, const struct job_agent *agent, const char *id,
                  struct error *error) {
  struct http_job *self = program->http;
  (void)agent;
  const int status = call_step(self, "POST", id, "/cancel", NULL, error);
  if (status == 200 || status == 202)
    return 0;
  return status > 0 ? http_job_explain(status, &self->answer, error) : -1;
}

static int shut_down(struct program *program, const char *id, struct error *error) {
  static const char json[] = "{\"schemaVersion\":1,\"kind\":\"shutdown\"}";
  return push(program, NULL, id, json, error);
}

const struct job_access http_access = {.peer = "the agent",
                                       .choose = choose,
                                       .ping = ping,
                                       .read_agent = read_agent,
                                       .read_steps = read_steps,
                                       .find_step = find_step,
                                       .describe_running = describe_running,
                                       .push = push,
                                       .take_result = take_result,
                                       .cancel = cancel,
                                       .shut_down = shut_down,
                                       .events = &http_event_access};
