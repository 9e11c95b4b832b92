#include "tests/support/job.h"

#include <strings.h>
#include <sys/socket.h>

struct job *job_new(struct redis_server *server) {
  struct job *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->server = server;
  self->schema_version = 1;
  signal(SIGPIPE, SIG_IGN); /* hiredis then returns an error */
  self->owned = cJSON_CreateArray();
  self->redis = redis_server_connect(server);
  snprintf(self->id, sizeof self->id, "{test-%d}", redis_server_port(server));
  job_use_port(self, redis_server_port(server));
  return self;
}

void job_free(struct job *self) {
  if (self == NULL)
    return;
  agent_process_free(self->agent);
  redisFree(self->redis);
  redis_server_stop(self->server);
  cJSON_Delete(self->owned);
  free(self);
}

int job_setup_server(void **state) {
  *state = job_new(redis_server_start(NULL));
  return 0;
}

int job_setup(void **state) {
  job_setup_server(state);
  job_start_agent(*state, NULL);
  return 0;
}

int job_teardown(void **state) {
  job_free(*state);
  *state = NULL;
  return 0;
}

void job_start_agent(struct job *self, ...) {
  const char *arguments[24] = {"--redis-url", self->url, "--job-id", self->id};
  size_t count = 4;
  va_list more;
  va_start(more, self);
  while (count < 23 && (arguments[count] = va_arg(more, const char *)) != NULL)
    count++;
  va_end(more);
  agent_process_free(self->agent);
  self->setup.arguments = arguments;
  self->agent = agent_process_start(&self->setup);
  self->setup = (struct agent_setup){0};
}

struct agent_process *job_start_second_agent(struct job *self) {
  struct agent_process *first = self->agent;
  self->agent = NULL;
  job_start_agent(self, NULL);
  return first;
}

void job_fail(struct job *self, const char *format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  agent_process_fail(self->agent, "%s", text);
}

cJSON *job_own(struct job *self, cJSON *json) {
  assert_non_null(json);
  cJSON_AddItemToArray(self->owned, json);
  return json;
}

char *job_own_text(struct job *self, char *text) {
  assert_non_null(text);
  cJSON *copy = job_own(self, cJSON_CreateString(text));
  free(text);
  return copy->valuestring;
}

char *job_format(struct job *self, const char *format, ...) {
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0)
    text = NULL;
  va_end(arguments);
  return job_own_text(self, text);
}

char *job_json(struct job *self, const char *format, ...) {
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0)
    text = NULL;
  va_end(arguments);
  char *json = job_own_text(self, text);
  quoted_in_place(json);
  return json;
}

void job_use_port(struct job *self, int port) {
  self->url =
      job_format(self, "%s://%s127.0.0.1:%d", redis_server_scheme(), redis_server_login(), port);
}

void job_reconnect(struct job *self) {
  redisFree(self->redis);
  self->redis = redis_server_connect(self->server);
}

void job_restart_server(struct job *self) {
  redis_server_kill(self->server);
  redis_server_restart(self->server);
  job_reconnect(self);
}

char *job_path(struct job *self, const char *name) {
  return job_format(self, "%s/%s", redis_server_directory(self->server), name);
}

char *job_write(struct job *self, const char *name, const char *content, mode_t mode) {
  char *path = job_path(self, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
  assert_int_equal(fchmod(fd, mode), 0);
  close(fd);
  return path;
}

char *job_sleep(struct job *self, int seconds) {
  return job_format(self, "sleep %d.%03d", seconds, ++self->last_number);
}

static cJSON *new_step(struct job *self) {
  char id[64];
  snprintf(id, sizeof id, "%08x-aaaa-4bbb-8ccc-%012x", (unsigned)++self->last_number,
           (unsigned)redis_server_port(self->server));
  cJSON *step = job_own(self, cJSON_CreateObject());
  cJSON_AddNumberToObject(step, "schemaVersion", self->schema_version);
  cJSON_AddStringToObject(step, "stepId", id);
  return step;
}

cJSON *job_step(struct job *self, const char *command, ...) {
  cJSON *step = new_step(self);
  cJSON_AddStringToObject(step, "kind", "run");
  cJSON_AddStringToObject(step, "command", command);
  cJSON *args = cJSON_AddArrayToObject(step, "args");
  va_list more;
  va_start(more, command);
  for (const char *arg; (arg = va_arg(more, const char *)) != NULL;)
    cJSON_AddItemToArray(args, cJSON_CreateString(arg));
  va_end(more);
  return step;
}

cJSON *job_script(struct job *self, const char *script) {
  return job_step(self, "sh", "-c", script, NULL);
}

void job_push_text(struct job *self, const char *payload, size_t length) {
  redisReply *reply =
      redisCommand(self->redis, "LPUSH sandbox:%s:in %b", self->id, payload, length);
  if (reply == NULL || reply->type != REDIS_REPLY_INTEGER)
    job_fail(self, "LPUSH: %s", reply == NULL ? self->redis->errstr : reply->str);
  freeReplyObject(reply);
}

void job_push_json(struct job *self, const char *quoted) {
  const char *payload = job_json(self, "%s", quoted);
  job_push_text(self, payload, strlen(payload));
}

static void send_all(struct job *self, const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t sent = send(self->redis->fd, bytes, length, MSG_NOSIGNAL);
    if (sent <= 0)
      job_fail(self, "LPUSH: %s", strerror(errno));
    bytes += sent;
    length -= (size_t)sent;
  }
}

/* Without hiredis, which would copy the payload twice. */
void job_push_filled(struct job *self, const char *head, const char *filling, size_t size,
                     const char *tail) {
  char block[65536];
  const size_t period = strlen(filling), ends = strlen(head) + strlen(tail);
  const char *key = job_format(self, "sandbox:%s:in", self->id);
  assert_true(size >= ends && sizeof block % period == 0);
  for (size_t i = 0; i < sizeof block; i += period)
    memcpy(block + i, filling, period);
  const char *command = job_format(self, "*3\r\n$5\r\nLPUSH\r\n$%zu\r\n%s\r\n$%zu\r\n%s",
                                   strlen(key), key, size, head);
  send_all(self, command, strlen(command));
  for (size_t left = size - ends, length; left > 0; left -= length) {
    length = left < sizeof block ? left : sizeof block;
    send_all(self, block, length);
  }
  send_all(self, tail, strlen(tail));
  send_all(self, "\r\n", 2);
  void *reply = NULL;
  if (redisGetReply(self->redis, &reply) != REDIS_OK ||
      ((redisReply *)reply)->type != REDIS_REPLY_INTEGER)
    job_fail(self, "LPUSH: %s", reply == NULL ? self->redis->errstr : ((redisReply *)reply)->str);
  freeReplyObject(reply);
}

void job_push_larger(struct job *self, const char *id, size_t limit) {
  job_push_filled(self, job_json(self, "{'stepId':'%s',", id), " ", limit + 1, "");
}

void job_push(struct job *self, const cJSON *step) {
  char *payload = cJSON_PrintUnformatted(step);
  assert_non_null(payload);
  job_push_text(self, payload, strlen(payload));
  free(payload);
}

const cJSON *job_push_echo(struct job *self, const char *line) {
  const cJSON *step = job_step(self, "echo", line, NULL);
  job_push(self, step);
  return step;
}

void job_push_shutdown(struct job *self) {
  cJSON *step = new_step(self);
  cJSON_AddStringToObject(step, "kind", "shutdown");
  job_push(self, step);
}

cJSON *job_cancel_of(struct job *self, const char *step_id) {
  cJSON *message = job_own(self, cJSON_CreateObject());
  cJSON_AddNumberToObject(message, "schemaVersion", self->schema_version);
  cJSON_AddStringToObject(message, "kind", "cancel");
  cJSON_AddStringToObject(message, "stepId", step_id);
  return message;
}

void job_push_control(struct job *self, const char *text) {
  job_do(self, "LPUSH sandbox:%s:control %s", self->id, text);
}

void job_push_cancel(struct job *self, const cJSON *step) {
  char *text = cJSON_PrintUnformatted(job_cancel_of(self, job_text(step, "stepId")));
  job_push_control(self, text);
  free(text);
}

static redisReply *ask(struct job *self, const char *format, va_list arguments) {
  redisReply *reply = redisvCommand(self->redis, format, arguments);
  if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
    job_fail(self, "%s: %s", format, reply == NULL ? self->redis->errstr : reply->str);
  return reply;
}

redisReply *job_ask(struct job *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  redisReply *reply = ask(self, format, arguments);
  va_end(arguments);
  return reply;
}

void job_do(struct job *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  freeReplyObject(ask(self, format, arguments));
  va_end(arguments);
}

long long job_ask_number(struct job *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  redisReply *reply = ask(self, format, arguments);
  va_end(arguments);
  if (reply->type != REDIS_REPLY_INTEGER)
    job_fail(self, "%s: not a number", format);
  long long number = reply->integer;
  freeReplyObject(reply);
  return number;
}

char *job_ask_text(struct job *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  redisReply *reply = ask(self, format, arguments);
  va_end(arguments);
  char *text = job_format(self, "%s", reply->str == NULL ? "" : reply->str);
  freeReplyObject(reply);
  return text;
}

struct awaited_text {
  struct job *job;
  const char *command, *text;
};

static bool has_text(void *context) {
  const struct awaited_text *awaited = context;
  return strstr(job_ask_text(awaited->job, awaited->command), awaited->text) != NULL;
}

void job_wait_text(struct job *self, const char *command, const char *text) {
  if (!wait_until(has_text, &(struct awaited_text){self, command, text}, WAIT_BOUND_MS))
    job_fail(self, "%s never says `%s`", command, text);
}

long long job_length(struct job *self, const char *list) {
  return job_ask_number(self, "LLEN sandbox:%s:%s", self->id, list);
}

struct awaited_length {
  struct job *job;
  const char *list;
  long long length;
};

static bool changes(void *context) {
  struct awaited_length *awaited = context;
  long long before = awaited->length;
  awaited->length = job_length(awaited->job, awaited->list);
  return awaited->length != before;
}

void job_wait_length(struct job *self, const char *list, long long length) {
  struct awaited_length awaited = {self, list, job_length(self, list)};
  while (awaited.length != length)
    if (!wait_until(changes, &awaited, WAIT_BOUND_MS))
      job_fail(self, "`%s` holds %lld, not %lld", list, awaited.length, length);
}

/* A line of CLIENT LIST; the heartbeat's connection waits for messages. */
static bool waits_for_step(const char *line) {
  const char *flags = strstr(line, " flags=");
  size_t length = flags != NULL ? strcspn(flags + 1, " ") : 0;
  return length > 0 && memchr(flags + strlen(" flags="), 'b', length - strlen("flags=")) != NULL &&
         strstr(line, ":heartbeat ") == NULL;
}

int job_count_waiting(const struct job *self) {
  redisReply *reply = redisCommand(self->redis, "CLIENT LIST");
  bool is_text = reply != NULL && reply->type == REDIS_REPLY_STRING;
  int count = 0;
  char *saved = NULL;
  for (char *line = is_text ? strtok_r(reply->str, "\n", &saved) : NULL; line != NULL;
       line = strtok_r(NULL, "\n", &saved))
    count += waits_for_step(line);
  freeReplyObject(reply);
  return count;
}

bool job_agent_waits(void *job) {
  return job_count_waiting(job) == 1;
}

void job_expect_keys(struct job *self, ...) {
  redisReply *keys = job_ask(self, "KEYS sandbox:*");
  size_t expected = 0;
  va_list names;
  va_start(names, self);
  for (const char *name; (name = va_arg(names, const char *)) != NULL; expected++) {
    const char *key = job_format(self, "sandbox:%s:%s", self->id, name);
    size_t i = 0;
    while (i < keys->elements && strcmp(keys->element[i]->str, key) != 0)
      i++;
    if (i == keys->elements)
      job_fail(self, "there is no key %s", key);
  }
  va_end(names);
  for (size_t i = 0; keys->elements != expected && i < keys->elements; i++)
    print_error("key: %s\n", keys->element[i]->str);
  if (keys->elements != expected)
    job_fail(self, "%zu keys, not %zu", keys->elements, expected);
  freeReplyObject(keys);
}

/* The names and JSON types of a result's members in order; those about the length of the output and
   the last one are optional. */
static void check_shape(struct job *self, const cJSON *result, const char *raw) {
  static const struct {
    const char *name;
    int type;
  } fields[] = {{"schemaVersion", cJSON_Number},
                {"stepId", cJSON_String},
                {"exitCode", cJSON_Number},
                {"timedOut", cJSON_True | cJSON_False},
                {"durationSeconds", cJSON_Number},
                {"errorMessage", cJSON_String | cJSON_NULL},
                {"outputContent", cJSON_String | cJSON_NULL},
                {"eventCount", cJSON_Number | cJSON_NULL},
                {"outputTruncated", cJSON_True},
                {"outputBytes", cJSON_Number},
                {"outputTail", cJSON_String},
                {"end", cJSON_Object},
                {"fence", cJSON_Object}};
  const cJSON *field = result == NULL ? NULL : result->child;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    bool is_optional =
        strcmp(fields[i].name, "fence") == 0 || (strncmp(fields[i].name, "output", 6) == 0 &&
                                                 fields[i].type != (cJSON_String | cJSON_NULL));
    if (is_optional && !cJSON_HasObjectItem(result, fields[i].name))
      continue;
    if (field == NULL || strcmp(field->string, fields[i].name) != 0 ||
        (field->type & fields[i].type) == 0)
      job_fail(self, "field %zu of the result should be %s: %.3000s", i + 1, fields[i].name, raw);
    field = field->next;
  }
  if (field != NULL ||
      cJSON_GetObjectItemCaseSensitive(result, "schemaVersion")->valuedouble !=
          self->schema_version ||
      cJSON_GetObjectItemCaseSensitive(result, "durationSeconds")->valuedouble < 0)
    job_fail(self, "not a StepResult: %.3000s", raw);
}

static redisReply *next_reply(struct job *self) {
  redisReply *reply = NULL;
  if (redisGetReply(self->redis, (void **)&reply) != REDIS_OK || reply->type == REDIS_REPLY_ERROR)
    job_fail(self, "redis: %s", reply == NULL ? self->redis->errstr : reply->str);
  return reply;
}

/* XLEN is sent in the same write, so that Redis answers it right after it returned the result: an
   event that the agent sends after the result is not counted. */
static redisReply *pop_result(struct job *self, int64_t bound_ms) {
  char bound[32];
  snprintf(bound, sizeof bound, "%d.%03d", (int)bound_ms / 1000, (int)bound_ms % 1000);
  redisAppendCommand(self->redis, "BRPOP sandbox:%s:results %s", self->id, bound);
  redisAppendCommand(self->redis, "XLEN sandbox:%s:events", self->id);
  redisReply *popped = next_reply(self);
  redisReply *length = next_reply(self);
  self->events_before_result = length->integer;
  freeReplyObject(length);
  if (popped->type == REDIS_REPLY_ARRAY)
    return popped;
  freeReplyObject(popped);
  return NULL;
}

const cJSON *job_result_within(struct job *self, int bound_ms) {
  enum { SLICE_MS = 500 };
  int64_t end = wait_now_ms() + bound_ms;
  redisReply *popped = NULL;
  while (popped == NULL) {
    bool runs = self->agent != NULL && agent_process_is_running(self->agent);
    int64_t left = end - wait_now_ms();
    if (left <= 0)
      job_fail(self, "no result within %d ms", bound_ms);
    popped = pop_result(self, left < SLICE_MS ? left : SLICE_MS);
    if (popped == NULL && !runs)
      job_fail(self, "no result, and no agent that could send one");
  }
  const char *raw = popped->element[1]->str;
  cJSON *result = cJSON_Parse(raw);
  if (result == NULL)
    job_fail(self, "the result is no JSON: %.3000s", raw);
  check_shape(self, job_own(self, result), raw);
  freeReplyObject(popped);
  return result;
}

const cJSON *job_result(struct job *self) {
  return job_result_within(self, WAIT_BOUND_MS);
}

static const cJSON *result_of(struct job *self, const cJSON *step, int bound_ms) {
  const cJSON *result = job_result_within(self, bound_ms);
  if (strcmp(job_text(result, "stepId"), job_text(step, "stepId")) != 0)
    job_fail(self, "the result is that of %s, not of %s", job_text(result, "stepId"),
             job_text(step, "stepId"));
  return result;
}

const cJSON *job_result_of(struct job *self, const cJSON *step) {
  return result_of(self, step, WAIT_BOUND_MS);
}

const cJSON *job_run_within(struct job *self, const cJSON *step, int bound_ms) {
  job_push(self, step);
  return result_of(self, step, bound_ms);
}

const cJSON *job_run(struct job *self, const cJSON *step) {
  return job_run_within(self, step, WAIT_BOUND_MS);
}

void job_expect_exit(struct job *self, int code) {
  int actual = agent_process_wait(self->agent, WAIT_BOUND_MS);
  if (actual != code)
    job_fail(self, "exit code %d, not %d", actual, code);
}

void job_shut_down(struct job *self) {
  job_push_shutdown(self);
  job_expect_exit(self, 0);
}

void job_stop_agent(struct job *self, int signal_number) {
  assert_int_equal(kill(agent_process_pid(self->agent), signal_number), 0);
  job_expect_exit(self, 128 + signal_number);
}

void job_expect_to_go_on(struct job *self) {
  job_expect_result(self, job_run(self, job_step(self, "echo", "on", NULL)), 0, NULL, "on\n");
}

void job_expect_nothing_left(struct job *self) {
  job_wait_length(self, "inflight", 0);
  job_wait_length(self, "control", 0);
  job_shut_down(self);
  job_expect_keys(self, "committed", "events", NULL);
}

void job_kill_agent(struct job *self) {
  agent_process_free(self->agent);
  self->agent = NULL;
}

void job_run_with_kills(struct job *self, long long steps, int kills) {
  unsigned short seed[3] = {42};
  for (int i = 0; i < kills; i++) {
    job_start_agent(self, NULL);
    int64_t end_ms = wait_now_ms() + WAIT_BOUND_MS;
    long long before = job_length(self, "results");
    while (job_length(self, "results") == before && before < steps && wait_now_ms() < end_ms)
      usleep(500);
    usleep((useconds_t)(erand48(seed) * 10000));
    job_kill_agent(self);
  }
  job_start_agent(self, NULL);
  job_wait_length(self, "results", steps);
}

const char *job_text(const cJSON *object, const char *field) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, field);
  return cJSON_IsString(value) ? value->valuestring : "";
}

double job_number(const cJSON *object, const char *field) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, field);
  if (!cJSON_IsNumber(value))
    fail_msg("%s is no number", field);
  return value->valuedouble;
}

static void expect_text(struct job *self, const cJSON *result, const char *field,
                        const char *expected) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(result, field);
  const char *actual = cJSON_IsString(value) ? value->valuestring : NULL;
  if ((actual == NULL) != (expected == NULL) || (actual != NULL && strcmp(actual, expected) != 0))
    job_fail(self, "%s is `%.1500s`, not `%.1500s`", field, actual == NULL ? "(null)" : actual,
             expected == NULL ? "(null)" : expected);
}

void job_expect_result(struct job *self, const cJSON *result, int exit_code, const char *message,
                       const char *output) {
  const cJSON *code = cJSON_GetObjectItemCaseSensitive(result, "exitCode");
  if (code->valuedouble != exit_code)
    job_fail(self, "exitCode is %g, not %d; errorMessage: %.1500s", code->valuedouble, exit_code,
             job_text(result, "errorMessage"));
  bool timed_out = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(result, "timedOut"));
  if (timed_out != (message != NULL && strncmp(message, "timed out after ", 16) == 0))
    job_fail(self, "timedOut is %s", timed_out ? "true" : "false");
  expect_text(self, result, "errorMessage", message);
  expect_text(self, result, "outputContent", output);
}

const cJSON *job_expect_answer(struct job *self, const cJSON *step, int exit_code,
                               const char *message, const char *output) {
  const cJSON *result = job_result_of(self, step);
  job_expect_result(self, result, exit_code, message, output);
  return result;
}

int job_event_count(const cJSON *result) {
  const cJSON *count = cJSON_GetObjectItemCaseSensitive(result, "eventCount");
  return cJSON_IsNumber(count) ? (int)count->valuedouble : -1;
}

void job_expect_part(struct job *self, const cJSON *object, const char *field, const char *part) {
  if (strcasestr(job_text(object, field), part) == NULL)
    job_fail(self, "%s should speak of `%s`: `%.3000s`", field, part, job_text(object, field));
}

/* --- the stream ------------------------------------------------------------------------------- */

static redisReply *read_stream(struct job *job) {
  redisReply *reply = redisCommand(job->redis, "XRANGE sandbox:%s:events - +", job->id);
  if (reply == NULL || reply->type != REDIS_REPLY_ARRAY)
    job_fail(job, "XRANGE: %s", reply == NULL ? job->redis->errstr : reply->str);
  return reply;
}

/* The value of the only field of an entry. */
static const char *entry_data(struct job *job, const redisReply *entry) {
  const redisReply *fields = entry->element[1];
  if (fields->elements != 2 || strcmp(fields->element[0]->str, "data") != 0)
    job_fail(job, "a stream entry should have one field, `data`");
  return fields->element[1]->str;
}

/* Checks each event; a regular expression would take most of a test's time. */
static bool is_timestamp(const char *text) {
  static const char form[] = "20dd-dd-ddTdd:dd:dd.ddd+00:00";
  for (size_t i = 0; i < sizeof form; i++)
    if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
      return false;
  return true;
}

static void check_event(struct job *job, const cJSON *event, const char *raw) {
  static const char *const names[] = {"schemaVersion", "stepId",    "kind",
                                      "line",          "timestamp", "seq"};
  const cJSON *field = event == NULL ? NULL : event->child;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    while (field != NULL && strcmp(field->string, "partial") == 0)
      field = field->next;
    if (field == NULL || strcmp(field->string, names[i]) != 0)
      job_fail(job, "an event should have the field %s here: %.3000s", names[i], raw);
    field = field->next;
  }
  if (cJSON_GetObjectItemCaseSensitive(event, "schemaVersion")->valuedouble !=
          job->schema_version ||
      !is_timestamp(job_text(event, "timestamp")) ||
      !(cJSON_GetObjectItemCaseSensitive(event, "seq")->valuedouble >= 1))
    job_fail(job, "not a StepEvent: %.3000s", raw);
}

const cJSON *job_events(struct job *job, const cJSON *step) {
  cJSON *events = job_own(job, cJSON_CreateArray());
  redisReply *stream = read_stream(job);
  for (size_t i = 0; i < stream->elements; i++) {
    const char *raw = entry_data(job, stream->element[i]);
    cJSON *event = cJSON_Parse(raw);
    check_event(job, event, raw);
    if (strcmp(job_text(event, "stepId"), job_text(step, "stepId")) != 0) {
      cJSON_Delete(event);
      continue;
    }
    cJSON_AddNumberToObject(event, "entryMs", strtod(stream->element[i]->element[0]->str, NULL));
    cJSON_AddItemToArray(events, event);
  }
  freeReplyObject(stream);
  return events;
}

const char *job_lines(struct job *job, const cJSON *step, const char *kind) {
  const cJSON *events = job_events(job, step);
  size_t size = 1;
  const cJSON *event;
  cJSON_ArrayForEach(event, events) size += strlen(job_text(event, "line")) + 1;
  char *lines = malloc(size);
  assert_non_null(lines);
  char *end = lines;
  cJSON_ArrayForEach(event, events) {
    if (strcmp(job_text(event, "kind"), kind) != 0)
      continue;
    end = stpcpy(end, job_text(event, "line"));
    if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(event, "partial")))
      *end++ = '\n';
  }
  *end = '\0';
  return job_own_text(job, lines);
}

const char *job_raw_events(struct job *job) {
  redisReply *stream = read_stream(job);
  size_t size = 1;
  for (size_t i = 0; i < stream->elements; i++)
    size += strlen(entry_data(job, stream->element[i])) + 1;
  char *text = malloc(size);
  assert_non_null(text);
  char *end = text;
  for (size_t i = 0; i < stream->elements; i++)
    end = stpcpy(stpcpy(end, entry_data(job, stream->element[i])), "\n");
  *end = '\0';
  freeReplyObject(stream);
  return job_own_text(job, text);
}

struct sought {
  struct job *job;
  const cJSON *step;
  const char *kind;
  const char *line;
};

static bool is_in_stream(void *context) {
  const struct sought *sought = context;
  const cJSON *event;
  cJSON_ArrayForEach(event, job_events(sought->job, sought->step)) {
    if (strcmp(job_text(event, "kind"), sought->kind) == 0 &&
        strcmp(job_text(event, "line"), sought->line) == 0)
      return true;
  }
  return false;
}

void job_wait_event(struct job *job, const cJSON *step, const char *kind, const char *line) {
  if (!wait_until(is_in_stream, &(struct sought){job, step, kind, line}, WAIT_BOUND_MS))
    job_fail(job, "no %s event `%s`", kind, line);
}

const cJSON *job_push_until(struct job *job, const cJSON *step, const char *line) {
  job_push(job, step);
  job_wait_event(job, step, "stdout", line);
  return step;
}

const cJSON *job_push_endless(struct job *job, const char *sleep) {
  return job_push_until(job, job_script(job, job_format(job, "echo up; exec %s", sleep)), "up");
}
