#include "bench/xadds.h"

#include <sys/mman.h>

#include "tests/test.h"

/* Of the line's number, as bench/programs/lines prints it, and of a time's milliseconds. */
enum { NUMBER_DIGITS = 10, MS_OFFSET = 20, MS_DIGITS = 3 };

static const char line_field[] = "\"line\":\"";
static const char time_field[] = "\"timestamp\":\"";
static const char seq_field[] = "\"seq\":";

/* One event, and the positions where it differs from the others. */
struct template {
  char *json;
  size_t line;   /* where the number begins */
  size_t ms;     /* where the milliseconds begin */
  size_t seq;    /* where the seq begins */
  size_t behind; /* where it ends */
};

/* Returns the last line, which the caller frees. In the agent's stream `completed` follows it. */
static char *last_line(redisContext *redis, const char *key) {
  char *json = NULL;
  redisReply *reply = redisCommand(redis, "XREVRANGE %s + - COUNT 2", key);
  for (size_t i = 0; json == NULL && reply != NULL && i < reply->elements; i++) {
    const redisReply *fields = reply->element[i]->element[1];
    if (strstr(fields->element[1]->str, "\"kind\":\"stdout\"") != NULL)
      json = strdup(fields->element[1]->str);
  }
  if (json == NULL)
    fail_msg("%s contains no line", key);
  freeReplyObject(reply);
  return json;
}

static size_t behind(const char *json, const char *field) {
  const char *found = strstr(json, field);
  if (found == NULL)
    fail_msg("an event has no %s: %s", field, json);
  return (size_t)(found - json) + strlen(field);
}

static void template_init(struct template *self, char *json) {
  *self = (struct template){.json = json,
                            .line = behind(json, line_field),
                            .ms = behind(json, time_field) + MS_OFFSET,
                            .seq = behind(json, seq_field)};
  self->behind = self->seq + strspn(json + self->seq, "0123456789");
  /* What is filled in below is in this order. */
  assert_true(self->line < self->ms && self->ms < self->seq);
}

/* `number`: of the line, from 1. Its seq is one more, because the first event is `started`. */
static size_t template_write(const struct template *self, size_t number, char *out) {
  char digits[24];
  memcpy(out, self->json, self->seq);
  snprintf(digits, sizeof digits, "%0*zu", NUMBER_DIGITS, number);
  memcpy(out + self->line, digits, NUMBER_DIGITS);
  snprintf(digits, sizeof digits, "%0*zu", MS_DIGITS, number / 1000 % 1000);
  memcpy(out + self->ms, digits, MS_DIGITS);
  size_t length = self->seq;
  length += (size_t)sprintf(out + length, "%zu", number + 1);
  size_t rest = strlen(self->json + self->behind);
  memcpy(out + length, self->json + self->behind, rest);
  return length + rest;
}

/* The agent trims with separate commands. Here one XADD in TRIMS_EACH does it, to as many entries
   as fit into the bytes that the agent keeps (the default of --events-keep-bytes). */
enum { HEAD_SIZE = 200, TRIMS_EACH = 1000, KEEP_BYTES = 8388608 };

static size_t write_head(char *out, const char *key, size_t entries) {
  char number[24];
  int digits = snprintf(number, sizeof number, "%zu", entries);
  char *at = out;
  at += sprintf(at, "*%d\r\n$4\r\nXADD\r\n$%zu\r\n%s\r\n", entries > 0 ? 8 : 5, strlen(key), key);
  if (entries > 0)
    at += sprintf(at, "$6\r\nMAXLEN\r\n$1\r\n~\r\n$%d\r\n%s\r\n", digits, number);
  at += sprintf(at, "$1\r\n*\r\n$4\r\ndata\r\n");
  return (size_t)(at - out);
}

void xadds_init(struct xadds *self, redisContext *redis, const char *source, const char *key,
                size_t count) {
  struct template template;
  char json[1024];
  template_init(&template, last_line(redis, source));
  assert_true(strlen(template.json) + 16 < sizeof json);
  assert_true(strlen(key) < HEAD_SIZE - 100);
  size_t size = count * (HEAD_SIZE + strlen(template.json) + 32);
  *self = (struct xadds){.count = count, .source = source, .key = key};
  self->bytes = malloc(size);
  self->ends = malloc(count * sizeof *self->ends);
  assert_true(self->bytes != NULL && self->ends != NULL && size < UINT32_MAX);
  for (size_t i = 0; i < count; i++) {
    size_t length = template_write(&template, i + 1, json);
    char *out = self->bytes + self->length;
    bool trims = i % TRIMS_EACH == TRIMS_EACH - 1;
    size_t head_length = write_head(out, self->key, trims ? KEEP_BYTES / length : 0);
    char *at = out + head_length + sprintf(out + head_length, "$%zu\r\n", length);
    memcpy(at, json, length);
    memcpy(at + length, "\r\n", 2);
    self->length = (size_t)(at - self->bytes) + length + 2;
    self->ends[i] = (uint32_t)self->length;
  }
  free(template.json);
}

void xadds_release(struct xadds *self) {
  free(self->bytes);
  free(self->ends);
}

/* Overwrites what may differ. */
static char *without_time_and_step(char *json) {
  static const char step_field[] = "\"stepId\":\"";
  char *at = json + behind(json, step_field);
  memset(at, '-', strcspn(at, "\""));
  at = json + behind(json, time_field);
  memset(at, '-', strcspn(at, "\""));
  return json;
}

void xadds_check(const struct xadds *self, redisContext *redis) {
  char *theirs = without_time_and_step(last_line(redis, self->key));
  char *ours = without_time_and_step(last_line(redis, self->source));
  if (strcmp(theirs, ours) != 0)
    fail_msg("the ceiling does not send what the agent sends:\n%s\n%s", theirs, ours);
  free(theirs);
  free(ours);
}
