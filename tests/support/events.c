#include "tests/support/events.h"

#include "tests/support/wait.h"
#include "tests/test.h"

static redisReply *read_stream(struct job *job) {
  redisReply *reply = redisCommand(job->redis, "XRANGE sandbox:%s:events - +", job->id);
  if (reply == NULL || reply->type != REDIS_REPLY_ARRAY)
    job_fail(job, "XRANGE: %s", reply == NULL ? job->redis->errstr : reply->str);
  return reply;
}

/* The one value of an entry's one field. */
static const char *entry_data(struct job *job, const redisReply *entry) {
  const redisReply *fields = entry->element[1];
  if (fields->elements != 2 || strcmp(fields->element[0]->str, "data") != 0)
    job_fail(job, "a stream entry should have one field, `data`");
  return fields->element[1]->str;
}

/* Asked of every event: a regular expression would take most of a test's time. */
static bool is_timestamp(const char *text) {
  static const char form[] = "20dd-dd-ddTdd:dd:dd.ddd+00:00";
  for (size_t i = 0; i < sizeof form; i++)
    if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
      return false;
  return true;
}

static void check_shape(struct job *job, const cJSON *event, const char *raw) {
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

const cJSON *events_of(struct job *job, const cJSON *step) {
  cJSON *events = job_own(job, cJSON_CreateArray());
  redisReply *stream = read_stream(job);
  for (size_t i = 0; i < stream->elements; i++) {
    const char *raw = entry_data(job, stream->element[i]);
    cJSON *event = cJSON_Parse(raw);
    check_shape(job, event, raw);
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

const char *events_lines(struct job *job, const cJSON *step, const char *kind) {
  const cJSON *events = events_of(job, step);
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

const char *events_raw(struct job *job) {
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
  cJSON_ArrayForEach(event, events_of(sought->job, sought->step)) {
    if (strcmp(job_text(event, "kind"), sought->kind) == 0 &&
        strcmp(job_text(event, "line"), sought->line) == 0)
      return true;
  }
  return false;
}

void events_wait(struct job *job, const cJSON *step, const char *kind, const char *line) {
  if (!wait_until(is_in_stream, &(struct sought){job, step, kind, line}, WAIT_BOUND_MS))
    job_fail(job, "no %s event `%s`", kind, line);
}

const cJSON *events_push(struct job *job, const cJSON *step, const char *line) {
  job_push(job, step);
  events_wait(job, step, "stdout", line);
  return step;
}

const cJSON *events_push_endless(struct job *job, const char *sleep) {
  return events_push(job, job_script(job, job_format(job, "echo up; exec %s", sleep)), "up");
}
