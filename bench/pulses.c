#include "bench/pulses.h"

#include "bench/latency.h"
#include "tests/test.h"

#define PREFIX "sandbox:pulse-"

void pulses_init(struct pulses *self, size_t count) {
  assert_true(count <= PULSES_MAX);
  *self = (struct pulses){.count = count};
  rig_init(&self->rig);
  rig_program(self->command, "pulse");
  for (size_t i = 0; i < count; i++) {
    char job[32];
    (void)snprintf(job, sizeof job, "pulse-%zu", i);
    self->agents[i] = rig_start_agent(&self->rig, job, NULL);
    (void)snprintf(self->last_ids[i], sizeof self->last_ids[i], "0");
  }
  rig_wait_idle(&self->rig, (long)count);
}

void pulses_release(struct pulses *self) {
  for (size_t i = 0; i < self->count; i++)
    agent_process_free(self->agents[i]);
  rig_release(&self->rig);
}

void pulses_push(struct pulses *self, long lines, long period_us) {
  for (size_t i = 0; i < self->count; i++) {
    char step[RIG_STEP_SIZE];
    char arguments[64];
    long phase_us = period_us * (long)i / (long)self->count;
    (void)snprintf(arguments, sizeof arguments, "\"%ld\",\"%ld\",\"%ld\"", lines, period_us,
                   phase_us);
    rig_step(step, ++self->steps, self->command, arguments);
    (void)rig_number(self->rig.redis, "LPUSH " PREFIX "%d:in %s", (int)i, step);
  }
}

static void ask_for_events(struct pulses *self) {
  char keys[PULSES_MAX][48];
  const char *words[4 + 2 * PULSES_MAX] = {"XREAD", "BLOCK", "0", "STREAMS"};
  for (size_t i = 0; i < self->count; i++) {
    (void)snprintf(keys[i], sizeof keys[i], PREFIX "%zu:events", i);
    words[4 + i] = keys[i];
    words[4 + self->count + i] = self->last_ids[i];
  }
  redisAppendCommandArgv(self->rig.redis, (int)(4 + 2 * self->count), words, NULL);
}

/* `entry`: its id, and its one field. Returns 1 if it is a line. */
static size_t read_entry(const redisReply *entry, double now_ms, double *age) {
  static const char label[] = "\"kind\":\"stdout\",\"line\":\"";
  const char *line = strstr(entry->element[1]->element[1]->str, label);
  if (line == NULL)
    return 0;
  *age = now_ms - (double)strtoll(line + sizeof label - 1, NULL, 10) / 1e6;
  return 1;
}

/* Returns the number of lines. */
static size_t read_stream(struct pulses *self, const redisReply *stream, double now_ms,
                          double *ages) {
  size_t count = 0;
  const redisReply *entries = stream->element[1];
  size_t agent = strtoul(stream->element[0]->str + strlen(PREFIX), NULL, 10);
  assert_true(agent < self->count);
  for (size_t i = 0; i < entries->elements; i++) {
    count += read_entry(entries->element[i], now_ms, ages + count);
    (void)snprintf(self->last_ids[agent], sizeof *self->last_ids, "%s",
                   entries->element[i]->element[0]->str);
  }
  return count;
}

void pulses_read(struct pulses *self, long lines, double *ages) {
  size_t count = 0, expected = (size_t)lines * self->count;
  while (count < expected) {
    ask_for_events(self);
    redisReply *reply = rig_reply(self->rig.redis);
    double now_ms = latency_now_ms();
    for (size_t i = 0; i < reply->elements; i++)
      count += read_stream(self, reply->element[i], now_ms, ages + count);
    freeReplyObject(reply);
  }
}

void pulses_wait(struct pulses *self) {
  for (size_t i = 0; i < self->count; i++) {
    redisAppendCommand(self->rig.redis, "BRPOP " PREFIX "%d:results 0", (int)i);
    redisReply *reply = rig_reply(self->rig.redis);
    if (strstr(reply->element[1]->str, "\"exitCode\":0,") == NULL)
      agent_process_fail(self->agents[i], "the step failed: %.400s", reply->element[1]->str);
    freeReplyObject(reply);
    rig_do(self->rig.redis, "DEL " PREFIX "%d:events", (int)i);
    (void)snprintf(self->last_ids[i], sizeof *self->last_ids, "0");
  }
}
