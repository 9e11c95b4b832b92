#include "bench/printer.h"

#include <cjson/cJSON.h>

#include "bench/latency.h"
#include "tests/test.h"

/* A step that takes longer hangs. */
#define STEP_BOUND_SECONDS 120

#define JOB "printer"

void printer_init(struct printer *self, const struct rig *rig) {
  *self = (struct printer){.rig = rig};
  rig_program(self->program, "lines");
  self->agent = rig_start_agent(rig, JOB, NULL);
  rig_wait_idle(rig, 1);
}

void printer_release(struct printer *self) {
  agent_process_free(self->agent);
}

/* How many events the stream has ever been given, including those that were trimmed. */
static long long events_added(const struct printer *self) {
  long long added = -1;
  if (rig_number(self->rig->redis, "EXISTS " PRINTER_EVENTS) == 0)
    return 0;
  redisAppendCommand(self->rig->redis, "XINFO STREAM " PRINTER_EVENTS);
  redisReply *reply = rig_reply(self->rig->redis);
  for (size_t i = 0; i + 1 < reply->elements; i += 2)
    if (strcmp(reply->element[i]->str, "entries-added") == 0)
      added = reply->element[i + 1]->integer;
  if (added < 0)
    fail_msg("the server does not count entries-added; that needs Redis 7 or Valkey");
  freeReplyObject(reply);
  return added;
}

/* The events are the lines, `started` and `completed`, by the result and by the server's count. */
static void check_result(const struct printer *self, const char *text, long lines,
                         long long added) {
  cJSON *result = cJSON_Parse(text);
  const cJSON *code = cJSON_GetObjectItem(result, "exitCode");
  const cJSON *events = cJSON_GetObjectItem(result, "eventCount");
  if (!cJSON_IsNumber(code) || code->valueint != 0 || !cJSON_IsNumber(events) ||
      (long)events->valuedouble != lines + 2)
    agent_process_fail(self->agent, "not the result of %ld lines: %.400s", lines, text);
  cJSON_Delete(result);
  if (added != lines + 2)
    agent_process_fail(self->agent, "the stream was given %lld events for %ld lines", added, lines);
}

double printer_print(struct printer *self, long lines) {
  char arguments[32], step[RIG_STEP_SIZE];
  redisContext *redis = self->rig->redis;
  (void)snprintf(arguments, sizeof arguments, "\"%ld\"", lines);
  rig_step(step, ++self->steps, self->program, arguments);
  long long added = events_added(self);
  double begin_ms = latency_now_ms();
  rig_do(redis, "LPUSH sandbox:" JOB ":in %s", step);
  redisAppendCommand(redis, "BRPOP sandbox:" JOB ":results %d", STEP_BOUND_SECONDS);
  redisReply *reply = rig_reply(redis);
  double seconds = (latency_now_ms() - begin_ms) / 1e3;
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
    agent_process_fail(self->agent, "no result within %d s", STEP_BOUND_SECONDS);
  check_result(self, reply->element[1]->str, lines, events_added(self) - added);
  freeReplyObject(reply);
  return seconds;
}
