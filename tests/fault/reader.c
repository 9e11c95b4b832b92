#include "tests/fault/reader.h"
#include "tests/test.h"

/* How many entries are read at a time. */
#define PAGE 5000

/* How many entries reader_glance reads at a time. */
#define GLANCE 64

void reader_init(struct reader *self, const struct redis_server *server, const char *job,
                 struct tally *tally) {
  *self = (struct reader){.redis = redis_server_connect(server), .job = job, .tally = tally};
}

void reader_release(struct reader *self) {
  redisFree(self->redis);
  self->redis = NULL;
}

static redisReply *checked(const struct reader *self, redisReply *reply) {
  if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
    fail_msg("the reader: %s", reply == NULL ? self->redis->errstr : reply->str);
  return reply;
}

static const char *text_of(const cJSON *object, const char *field) {
  return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, field));
}

static cJSON *parse_event(const struct reader *self, const redisReply *entry) {
  const redisReply *fields = entry->element[1];
  cJSON *json = NULL;
  if (fields->elements == 2 && strcmp(fields->element[0]->str, "data") == 0)
    json = cJSON_ParseWithLength(fields->element[1]->str, fields->element[1]->len);
  if (json == NULL)
    tally_find(self->tally, TALLY_WRONG, 1, "the entry %s is no event", entry->element[0]->str);
  return json;
}

static void visit_event(const struct reader *self, const redisReply *entry,
                        void (*visit)(void *context, const struct reader_event *event),
                        void *context) {
  cJSON *json = parse_event(self, entry);
  if (json == NULL)
    return;
  const cJSON *seq = cJSON_GetObjectItemCaseSensitive(json, "seq");
  struct reader_event event = {.step_id = text_of(json, "stepId"),
                               .kind = text_of(json, "kind"),
                               .line = text_of(json, "line"),
                               .seq = cJSON_IsNumber(seq) ? (long)seq->valuedouble : 0};
  if (event.step_id == NULL || event.kind == NULL || event.line == NULL)
    tally_find(self->tally, TALLY_WRONG, 1, "a field is missing in %s", entry->element[0]->str);
  else
    visit(context, &event);
  cJSON_Delete(json);
}

void reader_events(const struct reader *self,
                   void (*visit)(void *context, const struct reader_event *event), void *context) {
  char from[64] = "-";
  for (size_t count = PAGE; count == PAGE;) {
    redisReply *page =
        checked(self, redisCommand(self->redis, "XRANGE sandbox:%s:events %s + COUNT %d", self->job,
                                   from, PAGE));
    count = page->elements;
    for (size_t i = 0; i < count; i++)
      visit_event(self, page->element[i], visit, context);
    if (count > 0)
      snprintf(from, sizeof from, "(%s", page->element[count - 1]->element[0]->str);
    freeReplyObject(page);
  }
}

void reader_results(const struct reader *self, void (*visit)(void *context, const cJSON *result),
                    void *context) {
  redisReply *list =
      checked(self, redisCommand(self->redis, "LRANGE sandbox:%s:results 0 -1", self->job));
  for (size_t i = list->elements; i-- > 0;) {
    cJSON *json = cJSON_ParseWithLength(list->element[i]->str, list->element[i]->len);
    if (json == NULL || text_of(json, "stepId") == NULL)
      tally_find(self->tally, TALLY_WRONG, 1, "no result: %.200s", list->element[i]->str);
    else
      visit(context, json);
    cJSON_Delete(json);
  }
  freeReplyObject(list);
}

long reader_length(const struct reader *self, const char *list) {
  redisReply *reply =
      checked(self, redisCommand(self->redis, "LLEN sandbox:%s:%s", self->job, list));
  long length = (long)reply->integer;
  freeReplyObject(reply);
  return length;
}

long reader_event_count(const struct reader *self) {
  redisReply *reply = checked(self, redisCommand(self->redis, "XLEN sandbox:%s:events", self->job));
  long count = (long)reply->integer;
  freeReplyObject(reply);
  return count;
}

bool reader_has(const struct reader *self, const char *key) {
  redisReply *reply =
      checked(self, redisCommand(self->redis, "EXISTS sandbox:%s:%s", self->job, key));
  bool has = reply->integer != 0;
  freeReplyObject(reply);
  return has;
}

/* Returns whether the `completed` event of the step is among the events up to `last`. Searches from
   the end, because the event of the newest result is near it. */
static bool has_completed(const struct reader *self, const char *last, const char *step_id) {
  char from[64];
  bool found = false;
  snprintf(from, sizeof from, "%s", last);
  for (size_t count = GLANCE; count == GLANCE && !found;) {
    redisReply *page =
        checked(self, redisCommand(self->redis, "XREVRANGE sandbox:%s:events %s - COUNT %d",
                                   self->job, from, GLANCE));
    count = page->elements;
    for (size_t i = 0; i < count && !found; i++) {
      cJSON *json = parse_event(self, page->element[i]);
      const char *kind = text_of(json, "kind");
      const char *id = text_of(json, "stepId");
      found =
          kind != NULL && id != NULL && strcmp(kind, "completed") == 0 && strcmp(id, step_id) == 0;
      cJSON_Delete(json);
    }
    if (count > 0)
      snprintf(from, sizeof from, "(%s", page->element[count - 1]->element[0]->str);
    freeReplyObject(page);
  }
  return found;
}

/* Reads the number of results, the newest result and the newest event in one transaction. */
static redisReply *look(const struct reader *self) {
  redisReply *reply = NULL;
  redisAppendCommand(self->redis, "MULTI");
  redisAppendCommand(self->redis, "LLEN sandbox:%s:results", self->job);
  redisAppendCommand(self->redis, "LINDEX sandbox:%s:results 0", self->job);
  redisAppendCommand(self->redis, "XREVRANGE sandbox:%s:events + - COUNT 1", self->job);
  redisAppendCommand(self->redis, "EXEC");
  for (int i = 0; i < 5; i++) {
    freeReplyObject(reply);
    reply = NULL;
    if (redisGetReply(self->redis, (void **)&reply) != REDIS_OK)
      break;
  }
  checked(self, reply);
  assert_true(reply->type == REDIS_REPLY_ARRAY && reply->elements == 3);
  return reply;
}

void reader_glance(struct reader *self) {
  redisReply *reply = look(self);
  const redisReply *newest = reply->element[1];
  const redisReply *events = reply->element[2];
  cJSON *result = NULL;
  if (reply->element[0]->integer > self->results && newest->type == REDIS_REPLY_STRING)
    result = cJSON_Parse(newest->str);
  self->results = reply->element[0]->integer;
  const char *step_id = text_of(result, "stepId");
  const cJSON *code = cJSON_GetObjectItemCaseSensitive(result, "exitCode");
  bool ended = cJSON_IsNumber(code) && code->valuedouble >= 0; /* not by a signal */
  if (step_id != NULL && ended &&
      (events->elements == 0 || !has_completed(self, events->element[0]->element[0]->str, step_id)))
    tally_find(self->tally, TALLY_DISORDERED, 1, "a result is there before its events: %.120s",
               step_id);
  cJSON_Delete(result);
  freeReplyObject(reply);
}

static void print_reply(FILE *file, const redisReply *reply) {
  for (size_t i = 0; i < reply->elements; i++)
    print_reply(file, reply->element[i]);
  if (reply->type == REDIS_REPLY_INTEGER)
    fprintf(file, "%lld\n", reply->integer);
  else if (reply->str != NULL)
    fprintf(file, "%s\n", reply->str);
}

void reader_dump(const struct reader *self, const char *directory) {
  static const char *const commands[] = {
      "LRANGE sandbox:%s:in 0 -1",      "LRANGE sandbox:%s:inflight 0 -1",
      "GET sandbox:%s:started",         "GET sandbox:%s:committed",
      "GET sandbox:%s:heartbeat",       "PTTL sandbox:%s:heartbeat",
      "LRANGE sandbox:%s:results 0 -1", "XRANGE sandbox:%s:events - +"};
  char path[4096];
  snprintf(path, sizeof path, "%s/redis", directory);
  FILE *file = fopen(path, "we");
  if (file == NULL)
    return;
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    char command[256];
    char format[256];
    snprintf(format, sizeof format, "%s", commands[i]);
    char *gap = strstr(format, "%s");
    snprintf(command, sizeof command, "%.*s%s%s", (int)(gap - format), format, self->job, gap + 2);
    fprintf(file, "--- %s\n", command);
    redisReply *reply = redisCommand(self->redis, command);
    if (reply != NULL)
      print_reply(file, reply);
    freeReplyObject(reply);
  }
  fclose(file);
}
