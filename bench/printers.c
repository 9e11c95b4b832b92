#include "bench/printers.h"

#include <time.h>

#include <cjson/cJSON.h>

#include "bench/latency.h"
#include "tests/test.h"

/* The longest that a step takes. */
#define STEP_BOUND_SECONDS 120

#define JOB_FORMAT "printer-%03zu"

void printers_key(char out[PRINTERS_KEY_SIZE], size_t agent, const char *name) {
  (void)snprintf(out, PRINTERS_KEY_SIZE, "sandbox:" JOB_FORMAT ":%s", agent, name);
}

void printers_init(struct printers *self, const struct rig *rig, size_t count) {
  assert_true(count <= PRINTERS_MAX);
  *self = (struct printers){.rig = rig, .count = count};
  rig_program(self->program, "lines");
  for (size_t i = 0; i < count; i++) {
    char job[32];
    (void)snprintf(job, sizeof job, JOB_FORMAT, i);
    self->agents[i] = rig_start_agent(rig, job, NULL);
  }
  rig_wait_idle(rig, (long)count);
}

void printers_release(struct printers *self) {
  for (size_t i = 0; i < self->count; i++)
    agent_process_free(self->agents[i]);
}

static void order(struct printers *self, size_t agent, long lines) {
  char key[PRINTERS_KEY_SIZE], arguments[32], step[RIG_STEP_SIZE];
  printers_key(key, agent, "in");
  (void)snprintf(arguments, sizeof arguments, "\"%ld\"", lines);
  rig_step(step, ++self->steps, self->program, arguments);
  redisAppendCommand(self->rig->redis, "LPUSH %s %s", key, step);
}

static redisReply *wait_for_result(const struct printers *self, size_t agent) {
  char key[PRINTERS_KEY_SIZE];
  printers_key(key, agent, "results");
  redisAppendCommand(self->rig->redis, "BRPOP %s %d", key, STEP_BOUND_SECONDS);
  redisReply *reply = rig_reply(self->rig->redis);
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
    agent_process_fail(self->agents[agent], "no result within %d s", STEP_BOUND_SECONDS);
  return reply;
}

/* How many events the agent's stream has ever been given, those that are trimmed included. */
static long long events_added(const struct printers *self, size_t agent) {
  char key[PRINTERS_KEY_SIZE];
  printers_key(key, agent, "events");
  if (rig_number(self->rig->redis, "EXISTS %s", key) == 0)
    return 0;
  redisAppendCommand(self->rig->redis, "XINFO STREAM %s", key);
  redisReply *reply = rig_reply(self->rig->redis);
  long long added = -1;
  for (size_t i = 0; i + 1 < reply->elements; i += 2)
    if (strcmp(reply->element[i]->str, "entries-added") == 0)
      added = reply->element[i + 1]->integer;
  if (added < 0)
    fail_msg("the server counts no entries-added: that takes Redis 7 or Valkey");
  freeReplyObject(reply);
  return added;
}

/* The result says how many events are in the stream, and the server has to agree: as many lines,
   `started` and `completed`. */
static void check_result(const struct printers *self, size_t agent, redisReply *reply, long lines,
                         long long added_before) {
  cJSON *result = cJSON_Parse(reply->element[1]->str);
  const cJSON *code = cJSON_GetObjectItem(result, "exitCode");
  const cJSON *events = cJSON_GetObjectItem(result, "eventCount");
  if (!cJSON_IsNumber(code) || code->valueint != 0 || !cJSON_IsNumber(events) ||
      (long)events->valuedouble != lines + 2)
    agent_process_fail(self->agents[agent], "not as it was ordered: %.400s",
                       reply->element[1]->str);
  cJSON_Delete(result);
  freeReplyObject(reply);
  long long added = events_added(self, agent) - added_before;
  if (added != lines + 2)
    agent_process_fail(self->agents[agent], "the stream was given %lld events for %ld lines", added,
                       lines);
}

static double now_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

double printers_print(struct printers *self, size_t agents, long lines) {
  redisReply *results[PRINTERS_MAX];
  long long added[PRINTERS_MAX];
  for (size_t i = 0; i < agents; i++)
    added[i] = events_added(self, i);
  for (size_t i = 0; i < agents; i++)
    order(self, i, lines);
  double begin_ms = latency_now_ms();
  self->ordered_ms = now_ms();
  for (size_t i = 0; i < agents; i++)
    freeReplyObject(rig_reply(self->rig->redis));
  /* In the order of the agents, whoever is ready first: the time is that of the last. */
  for (size_t i = 0; i < agents; i++)
    results[i] = wait_for_result(self, i);
  double seconds = (latency_now_ms() - begin_ms) / 1e3;
  for (size_t i = 0; i < agents; i++)
    check_result(self, i, results[i], lines, added[i]);
  return seconds;
}

/* Behind the last line is `completed`. */
static double last_line_ms(const struct printers *self, size_t agent) {
  char key[PRINTERS_KEY_SIZE];
  printers_key(key, agent, "events");
  redisAppendCommand(self->rig->redis, "XREVRANGE %s + - COUNT 2", key);
  redisReply *reply = rig_reply(self->rig->redis);
  assert_int_equal(reply->elements, 2);
  const redisReply *entry = reply->element[1];
  assert_non_null(strstr(entry->element[1]->element[1]->str, "\"kind\":\"stdout\""));
  double ms = strtod(entry->element[0]->str, NULL); /* "<ms>-<number>" */
  freeReplyObject(reply);
  return ms;
}

double printers_last_line(const struct printers *self, size_t agents) {
  double last_ms = 0;
  for (size_t i = 0; i < agents; i++) {
    double ms = last_line_ms(self, i);
    last_ms = ms > last_ms ? ms : last_ms;
  }
  return (last_ms - self->ordered_ms) / 1e3;
}
