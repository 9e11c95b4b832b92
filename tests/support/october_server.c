#include "tests/support/october_server.h"

#include "tests/support/encoded.h"
#include "tests/test.h"

/* The reader of the stream: entries at a time, and the maximum number of reads in one call. */
enum { PAGE = 100, PAGES_MAX = 100 };

enum { KEY_TTL_SECONDS = 86400 };

/* The limits of one upload. */
enum { CHUNK_BYTES = 4194304, FILE_BYTES = 26214400 };

/* The longest wait of a test, whatever a step may take. */
enum { PATIENCE_MS = 100000 };

struct answer {
  struct october_answer said;
  struct answer *next;
};

/* --- output ----------------------------------------------------------------------------------- */

/* The server holds the beginning of a stream up to a mebibyte, and the last lines of the rest. Here
   all of it is kept, and the server's view is computed afterwards: as there, lines are counted in
   bytes for the head and in units for the tail. */

enum { HEAD_BYTES = 1048576, TAIL_UNITS = 60000 };

long long october_units(const char *text, size_t length) {
  long long units = 0;
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)text[i];
    units += (byte & 0xC0) != 0x80;
    units += byte >= 0xF0;
  }
  return units;
}

static void stream_append(struct october_stream *self, const char *line, size_t length) {
  if (self->length + length + 2 > self->size) {
    self->size = 2 * (self->length + length + 2);
    self->text = realloc(self->text, self->size);
    assert_non_null(self->text);
  }
  memcpy(self->text + self->length, line, length);
  self->length += length;
  self->text[self->length++] = '\n';
  self->text[self->length] = '\0';
  self->units += october_units(line, length) + 1;
}

static void stream_release(struct october_stream *self) {
  free(self->text);
  *self = (struct october_stream){0};
}

/* The end of a text of this many units; not within a code point. */
static size_t bytes_of_units(const char *text, size_t length, long long units) {
  size_t at = 0;
  while (at < length && units > 0) {
    units -= (unsigned char)text[at] >= 0xF0 ? 2 : 1;
    do
      at++;
    while (at < length && ((unsigned char)text[at] & 0xC0) == 0x80);
  }
  return at;
}

/* Counts whole lines as the server does: units so far, and the next line's bytes. */
static size_t head_length(const struct october_stream *self) {
  size_t at = 0;
  long long units = 0;
  while (at < self->length) {
    size_t line =
        (size_t)((char *)memchr(self->text + at, '\n', self->length - at) - (self->text + at)) + 1;
    if (units + (long long)line > HEAD_BYTES)
      return at;
    units += october_units(self->text + at, line);
    at += line;
  }
  return at;
}

/* The start of the last lines with this many units together; the end of a longer line. */
static size_t tail_begin(const struct october_stream *self, size_t head) {
  size_t begin = self->length;
  long long units = 0;
  while (begin > head) {
    const char *before = memrchr(self->text + head, '\n', begin - 1 - head);
    size_t line = before == NULL ? head : (size_t)(before + 1 - self->text);
    long long more = october_units(self->text + line, begin - line);
    if (units + more > TAIL_UNITS)
      return units > 0 ? begin
                       : line + bytes_of_units(self->text + line, begin - line, more - TAIL_UNITS);
    units += more;
    begin = line;
  }
  return begin;
}

/* The tail that the server holds behind this position. */
static void take_after(const struct october_stream *self, long long position,
                       struct october_section *section) {
  size_t head = head_length(self);
  size_t begin = head < self->length ? tail_begin(self, head) : 0;
  long long before = october_units(self->text, begin);
  if (position > before)
    begin += bytes_of_units(self->text + begin, self->length - begin, position - before);
  section->tail = self->text + begin;
  section->tail_length = self->length - begin;
}

struct october_section october_section_of(const char *body, const struct october_stream *stream) {
  struct october_section section = {.head = "", .tail = "", .total = stream->units};
  if (body == NULL) {
    if (stream->text == NULL)
      return section;
    section.head = stream->text;
    section.head_length = head_length(stream);
    if (section.head_length < stream->length) {
      size_t begin = tail_begin(stream, section.head_length);
      section.tail = stream->text + begin;
      section.tail_length = stream->length - begin;
    }
    return section;
  }
  section.head = body;
  section.head_length = strlen(body);
  long long units = october_units(body, section.head_length);
  if (units >= OCTOBER_BODY_UNITS && stream->units > units) {
    take_after(stream, units, &section);
  } else {
    section.total = units;
    section.tail_not_captured = units >= OCTOBER_BODY_UNITS;
  }
  return section;
}

bool october_section_ends_with(const struct october_section *self, const char *line) {
  const char *text = self->tail_length > 0 ? self->tail : self->head;
  size_t length = self->tail_length > 0 ? self->tail_length : self->head_length;
  size_t wanted = strlen(line);
  while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
    length--;
  if (self->tail_not_captured || length < wanted)
    return false;
  bool begins_line = length == wanted || text[length - wanted - 1] == '\n';
  return begins_line && memcmp(text + length - wanted, line, wanted) == 0;
}

/* --- the agent -------------------------------------------------------------------------------- */

int october_setup_server(void **state) {
  struct october_server *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->job = job_new(redis_server_start(NULL));
  self->window[0] = 1;
  self->window[1] = OCTOBER_SCHEMA_VERSION;
  self->poll_ms = OCTOBER_QUICK_MS;
  strcpy(self->cursor, "0-0");
  *state = self;
  return 0;
}

int october_setup(void **state) {
  october_setup_server(state);
  october_start_agent(*state, NULL);
  return 0;
}

int october_teardown(void **state) {
  struct october_server *self = *state;
  while (self->answers != NULL) {
    struct answer *answer = self->answers;
    self->answers = answer->next;
    stream_release(&answer->said.output);
    stream_release(&answer->said.errors);
    free(answer);
  }
  job_free(self->job);
  free(self);
  return 0;
}

void october_start_agent(struct october_server *self, ...) {
  struct job *job = self->job;
  const char *arguments[16] = {"--job-id", job->id, "--run-id", "run-1"};
  size_t count = 4;
  va_list more;
  va_start(more, self);
  while (count < 15 && (arguments[count] = va_arg(more, const char *)) != NULL)
    count++;
  va_end(more);
  const char *const environment[] = {
      job_format(job, "REDIS_URL=%s", job->url), job_format(job, "JOB_ID=%s", job->id),
      "AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES=30", "GIT_TOKEN=token", NULL};
  agent_process_free(job->agent);
  job->setup.arguments = arguments;
  job->setup.environment = environment;
  job->agent = agent_process_start(&job->setup);
  job->setup = (struct agent_setup){0};
}

/* --- steps ------------------------------------------------------------------------------------ */

void october_push_json(struct october_server *self, const char *json) {
  static const char *const keys[] = {"in", "results", "events"};
  job_push_text(self->job, json, strlen(json));
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    job_do(self->job, "EXPIRE sandbox:%s:%s %d", self->job->id, keys[i], KEY_TTL_SECONDS);
}

const char *october_push(struct october_server *self, const struct october_step *step) {
  struct october_step sent = *step;
  if (sent.id == NULL)
    sent.id = job_format(self->job, "%08x-7d3c-4e1f-9a2b-%012x", ++self->job->last_number,
                         redis_server_port(self->job->server));
  char *json = october_step_json(&sent);
  october_push_json(self, json);
  free(json);
  return sent.id;
}

/* --- results and events ----------------------------------------------------------------------- */

/* A JSON number that the server's reader accepts as an Int32. */
static int int_of(struct october_server *self, const cJSON *json, const char *name) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, name);
  if (!cJSON_IsNumber(value) || value->valuedouble != value->valueint)
    job_fail(self->job, "%s should be an integer", name);
  return value->valueint;
}

/* A string; NULL if it is null or absent. */
static const char *text_of(struct october_server *self, const cJSON *json, const char *name) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, name);
  if (value != NULL && !cJSON_IsString(value) && !cJSON_IsNull(value))
    job_fail(self->job, "%s should be a string", name);
  return cJSON_GetStringValue(value);
}

static const char *guid_of(struct october_server *self, const cJSON *json) {
  static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  const char *text = text_of(self, json, "stepId");
  for (size_t i = 0; i < sizeof form; i++)
    if (text == NULL ||
        (form[i] == 'x' ? strchr("0123456789abcdefABCDEF", text[i]) == NULL || text[i] == '\0'
                        : text[i] != form[i]))
      job_fail(self->job, "stepId should be a GUID: %.100s", text == NULL ? "(null)" : text);
  return text;
}

static void read_result(struct october_server *self, const cJSON *json,
                        struct october_answer *out) {
  const cJSON *timed_out = cJSON_GetObjectItemCaseSensitive(json, "timedOut");
  const cJSON *seconds = cJSON_GetObjectItemCaseSensitive(json, "durationSeconds");
  if (!cJSON_IsBool(timed_out) || !cJSON_IsNumber(seconds))
    job_fail(self->job, "timedOut should be a boolean, durationSeconds a number");
  out->schema_version = int_of(self, json, "schemaVersion");
  out->exit_code = int_of(self, json, "exitCode");
  out->timed_out = cJSON_IsTrue(timed_out);
  out->duration_seconds = seconds->valuedouble;
  out->error_message = text_of(self, json, "errorMessage");
  out->output_content = text_of(self, json, "outputContent");
  if (out->schema_version < self->window[0] || out->schema_version > self->window[1])
    self->advices++;
}

/* Takes one result, and keeps it if it is that of the step. */
static bool pop_result(struct october_server *self, const char *id, struct october_answer *out) {
  redisReply *reply = job_ask(self->job, "RPOP sandbox:%s:results", self->job->id);
  cJSON *json = reply->type == REDIS_REPLY_STRING ? cJSON_Parse(reply->str) : NULL;
  if (reply->type == REDIS_REPLY_STRING && json == NULL)
    job_fail(self->job, "the result is no JSON: %.3000s", reply->str);
  freeReplyObject(reply);
  if (json == NULL)
    return false;
  job_own(self->job, json);
  bool is_its = strcmp(guid_of(self, json), id) == 0;
  if (is_its)
    read_result(self, json, out);
  else
    self->stale_results++;
  return is_its;
}

/* A value of an object of simple members without spaces, as agents write it. */
struct value {
  const char *at; /* the first quote of a string */
  size_t length;
};

static size_t skip_string(const char *at) {
  size_t length = 1;
  while (at[length] != '"' && at[length] != '\0')
    length += at[length] == '\\' && at[length + 1] != '\0' ? 2 : 1;
  return length + (at[length] == '"');
}

/* Reads tens of thousands of events a second, and so without a JSON tree. */
static bool find_member(const char *object, const char *name, struct value *out) {
  const char *at = object;
  size_t length = strlen(name);
  while (*at == '{' || *at == ',') {
    const char *key = ++at;
    size_t key_length = *key == '"' ? skip_string(key) : 0;
    at = key + key_length;
    if (key_length < 2 || *at++ != ':')
      return false;
    *out = (struct value){at, *at == '"' ? skip_string(at) : strcspn(at, ",}")};
    if (key_length == length + 2 && memcmp(key + 1, name, length) == 0)
      return true;
    at += out->length;
  }
  return false;
}

static bool is_text(const struct value *value, const char *text) {
  size_t length = strlen(text);
  return value->length == length + 2 && memcmp(value->at + 1, text, length) == 0;
}

static void append_line(struct october_stream *stream, const struct value *line) {
  if (memchr(line->at, '\\', line->length) == NULL) {
    stream_append(stream, line->at + 1, line->length - 2);
    return;
  }
  cJSON *text = cJSON_ParseWithLength(line->at, line->length);
  assert_true(cJSON_IsString(text));
  stream_append(stream, text->valuestring, strlen(text->valuestring));
  cJSON_Delete(text);
}

static void take_event(struct october_server *self, const char *data, const char *id,
                       struct october_answer *out) {
  static const char *const names[] = {"stepId", "kind", "line", "timestamp"};
  struct value values[4], version;
  bool is_event = find_member(data, "schemaVersion", &version);
  for (size_t i = 0; i < 4; i++)
    is_event = is_event && find_member(data, names[i], &values[i]) && *values[i].at == '"';
  if (!is_event || !(*version.at >= '0' && *version.at <= '9') || values[0].length != 38)
    job_fail(self->job, "not an event: %.3000s", data);
  if (!is_text(&values[0], id))
    return;
  if (is_text(&values[1], "stdout"))
    append_line(&out->output, &values[2]);
  else if (is_text(&values[1], "stderr"))
    append_line(&out->errors, &values[2]);
  out->started += is_text(&values[1], "started");
  out->completed += is_text(&values[1], "completed");
}

/* Returns the number of entries. */
static size_t read_page(struct october_server *self, const char *id, struct october_answer *out) {
  redisReply *reply = job_ask(self->job, "XREAD COUNT %d STREAMS sandbox:%s:events %s", PAGE,
                              self->job->id, self->cursor);
  size_t count = 0;
  if (reply->type == REDIS_REPLY_ARRAY) {
    const redisReply *entries = reply->element[0]->element[1];
    count = entries->elements;
    for (size_t i = 0; i < count; i++) {
      const redisReply *fields = entries->element[i]->element[1];
      snprintf(self->cursor, sizeof self->cursor, "%s", entries->element[i]->element[0]->str);
      for (size_t field = 0; field + 1 < fields->elements; field += 2)
        if (strcmp(fields->element[field]->str, "data") == 0)
          take_event(self, fields->element[field + 1]->str, id, out);
    }
  }
  freeReplyObject(reply);
  return count;
}

static void read_events(struct october_server *self, const char *id, struct october_answer *out) {
  for (int page = 0; page < PAGES_MAX; page++)
    if (read_page(self, id, out) < PAGE)
      return;
}

static struct october_answer *new_answer(struct october_server *self) {
  struct answer *answer = calloc(1, sizeof *answer);
  assert_non_null(answer);
  answer->next = self->answers;
  self->answers = answer;
  return &answer->said;
}

static void pause_for(int milliseconds) {
  nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000L}, NULL);
}

/* Reads events and a result, and the events before it if it is that of the step. */
static bool look(struct october_server *self, const char *id, struct october_answer *out) {
  read_events(self, id, out);
  bool has_result = pop_result(self, id, out);
  int64_t now_ms = wait_now_ms();
  int late_ms = (int)(now_ms - self->looked_ms) - self->poll_ms;
  self->slowest_ms = late_ms > self->slowest_ms ? late_ms : self->slowest_ms;
  self->looked_ms = now_ms;
  if (has_result)
    read_events(self, id, out);
  return has_result;
}

/* Returns whether the result arrived. An agent that had exited before sends none. */
static bool poll_for(struct october_server *self, const char *id, int64_t bound_ms,
                     struct october_answer *out) {
  self->looked_ms = wait_now_ms() - self->poll_ms;
  for (int64_t end = wait_now_ms() + bound_ms; wait_now_ms() < end; pause_for(self->poll_ms)) {
    bool runs = self->job->agent != NULL && agent_process_is_running(self->job->agent);
    if (look(self, id, out))
      return true;
    if (!runs && job_length(self->job, "results") == 0)
      return false;
  }
  return false;
}

const struct october_answer *october_wait(struct october_server *self, const char *id,
                                          int timeout_seconds) {
  struct october_answer *answer = new_answer(self);
  int64_t bound_ms = (int64_t)(timeout_seconds + OCTOBER_SILENCE_SECONDS) * 1000;
  if (!poll_for(self, id, bound_ms < PATIENCE_MS ? bound_ms : PATIENCE_MS, answer))
    job_fail(self->job, "sandbox step %s did not produce a result", id);
  return answer;
}

const struct october_answer *october_run(struct october_server *self,
                                         const struct october_step *step) {
  const char *id = october_push(self, step);
  return october_wait(self, id,
                      step->timeout_seconds != 0 ? step->timeout_seconds : OCTOBER_TIMEOUT_SECONDS);
}

const struct october_answer *october_run_script(struct october_server *self, const char *script) {
  const char *const args[] = {"-c", script, NULL};
  return october_run(self, &(struct october_step){.command = "/bin/sh", .args = args});
}

/* --- the end ---------------------------------------------------------------------------------- */

static bool has_no_heartbeat(void *context) {
  const struct october_server *self = context;
  return job_ask_number(self->job, "EXISTS sandbox:%s:heartbeat", self->job->id) == 0;
}

bool october_vanishes(struct october_server *self, const char *id) {
  return !poll_for(self, id, WAIT_BOUND_MS, new_answer(self)) &&
         wait_until(has_no_heartbeat, self, WAIT_BOUND_MS);
}

void october_dispose(struct october_server *self) {
  struct job *job = self->job;
  october_push(self, &(struct october_step){.kind = "shutdown"});
  int code = agent_process_wait(job->agent, WAIT_BOUND_MS);
  if (code != 0)
    job_fail(job, "the agent leaves with %d after a shutdown", code);
  job_do(job, "DEL sandbox:%s:in sandbox:%s:events sandbox:%s:results", job->id, job->id, job->id);
}

/* --- uploads ---------------------------------------------------------------------------------- */

static const struct october_answer *send_chunk(struct october_server *self,
                                               const struct october_step *step,
                                               const unsigned char *bytes, size_t length) {
  struct october_step chunk = *step;
  char *content = encoded(bytes, length);
  chunk.content = content;
  const struct october_answer *answer = october_run(self, &chunk);
  free(content);
  return answer;
}

const char *october_upload(struct october_server *self, const char *directory, const char *name,
                           const void *bytes, size_t length, bool checked) {
  struct job *job = self->job;
  if (checked && length > FILE_BYTES)
    return job_format(job, "'%s' is %zu bytes, over the %d-byte limit", name, length, FILE_BYTES);
  size_t above = strlen(directory);
  while (above > 0 && directory[above - 1] == '/')
    above--;
  const char *target =
      *directory == '\0' ? name : job_format(job, "%.*s/%s", (int)above, directory, name);
  const char *temporary = job_format(job, "%s.tmp.%08x7d3c4e1f9a2b%012x", target,
                                     ++job->last_number, redis_server_port(job->server));
  size_t offset = 0;
  do {
    size_t size = length - offset < CHUNK_BYTES ? length - offset : CHUNK_BYTES;
    bool is_last = offset + size >= length;
    const struct october_answer *answer =
        send_chunk(self,
                   &(struct october_step){.kind = "writeBytes",
                                          .path = temporary,
                                          .append = offset > 0,
                                          .rename_to = is_last ? target : NULL},
                   (const unsigned char *)bytes + offset, size);
    if (answer->exit_code != 0)
      return job_format(job, "writing '%s' into the sandbox failed: %s", name,
                        answer->error_message != NULL
                            ? answer->error_message
                            : job_format(job, "exit %d", answer->exit_code));
    offset += size;
  } while (offset < length);
  return NULL;
}

/* --- searches --------------------------------------------------------------------------------- */

enum october_look october_look_at(const struct october_answer *answer) {
  if (answer->exit_code != 0 || answer->output_content == NULL)
    return OCTOBER_COULD_NOT_RUN;
  cJSON *rows = cJSON_Parse(answer->output_content);
  assert_true(cJSON_IsArray(rows));
  enum october_look look = cJSON_GetArraySize(rows) > 0 ? OCTOBER_MATCHED : OCTOBER_NO_MATCH;
  cJSON_Delete(rows);
  return look;
}

enum october_look october_search(struct october_server *self, const char *pattern,
                                 const char *path) {
  return october_look_at(october_run(self, &(struct october_step){.kind = "grep",
                                                                  .timeout_seconds = 90,
                                                                  .path = path,
                                                                  .pattern = pattern,
                                                                  .head_limit = 200,
                                                                  .search_hidden = true}));
}

/* --- expectations ----------------------------------------------------------------------------- */

static void expect_text(struct october_server *self, const char *what, const char *actual,
                        const char *expected) {
  if ((actual == NULL) != (expected == NULL) || (actual != NULL && strcmp(actual, expected) != 0))
    job_fail(self->job, "%s is `%.1500s`, not `%.1500s`", what, actual == NULL ? "(none)" : actual,
             expected == NULL ? "(none)" : expected);
}

void october_expect(struct october_server *self, const struct october_answer *answer, int exit_code,
                    const char *message, const char *output) {
  if (answer->exit_code != exit_code)
    job_fail(self->job, "exitCode is %d, not %d; errorMessage: %.1500s", answer->exit_code,
             exit_code, answer->error_message == NULL ? "(none)" : answer->error_message);
  expect_text(self, "errorMessage", answer->error_message, message);
  expect_text(self, "outputContent", answer->output_content, output);
}
