#include "wire/step_report.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json_string.h"
#include "base/memory.h"
#include "base/swar.h"
#include "wire/json.h"

/* Where a report goes: the same walk counts its bytes, and then writes them. Which of the two it does
   the compiler knows. */
struct sink {
  bool counts;
  size_t length;
  char *at;
};

static inline void put(struct sink *self, const char *text, size_t length) {
  if (self->counts)
    self->length += length;
  else
    self->at = swar_copy(self->at, text, length);
}

#define PUT(SINK, LITERAL) put(SINK, LITERAL, sizeof(LITERAL) - 1)

static inline void put_json(struct sink *self, const char *text, size_t length) {
  if (self->counts)
    self->length += json_string_length(text, length);
  else
    self->at = json_string_write(self->at, text, length);
}

static inline void put_number(struct sink *self, uint64_t number) {
  if (self->counts)
    self->length += decimal_length(number);
  else
    self->at = decimal_write(self->at, number);
}

/* --- events --- */

#define TIMESTAMP_LENGTH ((size_t)STEP_EVENT_TIMESTAMP_SIZE - 1)
static_assert(sizeof "2026-05-05T10:00:00.123+00:00" == STEP_EVENT_TIMESTAMP_SIZE, "its NUL too");

/* 9999-12-31T23:59:59.999 */
#define LAST_MS INT64_C(253402300799999)

void step_event_timestamp(char out[STEP_EVENT_TIMESTAMP_SIZE], int64_t unix_ms) {
  if (unix_ms < 0)
    unix_ms = 0;
  if (unix_ms > LAST_MS)
    unix_ms = LAST_MS;
  time_t seconds = (time_t)(unix_ms / 1000);
  struct tm utc;
  (void)gmtime_r(&seconds, &utc);

  /* Called for each line: snprintf would cost more than all the rest of an event. */
  out = decimal_write_padded(out, (uint64_t)utc.tm_year + 1900, 4);
  *out++ = '-';
  out = decimal_write_padded(out, (uint64_t)utc.tm_mon + 1, 2);
  *out++ = '-';
  out = decimal_write_padded(out, (uint64_t)utc.tm_mday, 2);
  *out++ = 'T';
  out = decimal_write_padded(out, (uint64_t)utc.tm_hour, 2);
  *out++ = ':';
  out = decimal_write_padded(out, (uint64_t)utc.tm_min, 2);
  *out++ = ':';
  out = decimal_write_padded(out, (uint64_t)utc.tm_sec, 2);
  *out++ = '.';
  out = decimal_write_padded(out, (uint64_t)(unix_ms % 1000), 3);
  memcpy(out, "+00:00", sizeof "+00:00");
}

static inline __attribute__((always_inline)) void put_event(struct sink *out,
                                                            const struct step_event *self) {
  static const char kind_names[][sizeof "completed"] = {[STEP_EVENT_STARTED] = "started",
                                                        [STEP_EVENT_STDOUT] = "stdout",
                                                        [STEP_EVENT_STDERR] = "stderr",
                                                        [STEP_EVENT_COMPLETED] = "completed"};
  const char *kind = kind_names[self->kind];
  PUT(out, "{\"schemaVersion\":");
  put(out, self->schema_version == 1 ? "1" : "2", 1);
  PUT(out, ",\"stepId\":\"");
  put(out, self->step_id, self->step_id_length);
  PUT(out, "\",\"kind\":\"");
  put(out, kind, strlen(kind));
  PUT(out, "\",\"line\":\"");
  put_json(out, self->line, self->line_length);
  PUT(out, "\",\"timestamp\":\"");
  put(out, self->timestamp, TIMESTAMP_LENGTH);
  PUT(out, "\",\"seq\":");
  put_number(out, self->seq);
  if (self->partial)
    PUT(out, ",\"partial\":true");
  PUT(out, "}");
}

size_t step_event_length(const struct step_event *self) {
  struct sink out = {.counts = true};
  put_event(&out, self);
  return out.length;
}

char *step_event_write(const struct step_event *self, char *at) {
  struct sink out = {.counts = false};
  out.at = at;
  put_event(&out, self);
  return out.at;
}

int64_t step_event_read_seq(const char *json, size_t length, const char *step_id,
                            int *schema_version) {
  struct error ignored;
  errno = 0;
  cJSON *event = json_tree_parse(json, length, &ignored);
  if (event == NULL && errno == ENOMEM)
    memory_exhausted("tree of a message");
  const cJSON *id = cJSON_GetObjectItemCaseSensitive(event, "stepId");
  const cJSON *seq = cJSON_GetObjectItemCaseSensitive(event, "seq");
  const cJSON *version = cJSON_GetObjectItemCaseSensitive(event, "schemaVersion");
  *schema_version = cJSON_IsNumber(version) && version->valuedouble == 2 ? 2 : 1;
  int64_t number = -1;
  /* Up to 2^53 a double is exact. */
  if (cJSON_IsString(id) && strcmp(id->valuestring, step_id) == 0 && cJSON_IsNumber(seq) &&
      seq->valuedouble >= 1 && seq->valuedouble < 9e15)
    number = (int64_t)seq->valuedouble;
  cJSON_Delete(event);
  return number;
}

/* --- results --- */

struct step_result step_result_of_agent(int schema_version, const char *step_id,
                                        const char *reason) {
  return (struct step_result){.schema_version = schema_version,
                              .step_id = step_id,
                              .exit_code = -1,
                              .error_message = reason,
                              .error_message_length = strlen(reason)};
}

void step_result_seconds(char out[STEP_RESULT_SECONDS_SIZE], int64_t duration_ms) {
  uint64_t milliseconds = duration_ms > 0 ? (uint64_t)duration_ms : 0;
  char *end = decimal_write(out, milliseconds / 1000);
  *end++ = '.';
  end = decimal_write_padded(end, milliseconds % 1000, 3);
  while (end[-1] == '0')
    end--;
  if (end[-1] == '.')
    end--;
  *end = '\0';
}

static void put_nullable(struct sink *out, const char *text, size_t length) {
  if (text == NULL) {
    PUT(out, "null");
    return;
  }
  PUT(out, "\"");
  put_json(out, text, length);
  PUT(out, "\"");
}

static inline void put_result(struct sink *out, const struct step_result *self) {
  char numbers[sizeof "\",\"exitCode\":-2147483648,\"timedOut\":false,\"durationSeconds\":" +
               STEP_RESULT_SECONDS_SIZE];
  char seconds[STEP_RESULT_SECONDS_SIZE];
  step_result_seconds(seconds, self->duration_ms);
  int length =
      snprintf(numbers, sizeof numbers, "\",\"exitCode\":%d,\"timedOut\":%s,\"durationSeconds\":%s",
               self->exit_code, self->timed_out ? "true" : "false", seconds);
  PUT(out, "{\"schemaVersion\":");
  put_number(out, (uint64_t)self->schema_version);
  PUT(out, ",\"stepId\":\"");
  put_json(out, self->step_id, strlen(self->step_id));
  put(out, numbers, (size_t)length);
  PUT(out, ",\"errorMessage\":");
  put_nullable(out, self->error_message, self->error_message_length);
  PUT(out, ",\"outputContent\":");
  put_nullable(out, self->output_content, self->output_content_length);
  PUT(out, ",\"eventCount\":");
  if (self->event_count < 0)
    PUT(out, "null");
  else
    put_number(out, (uint64_t)self->event_count);
  PUT(out, "}");
}

size_t step_result_length(const struct step_result *self) {
  struct sink out = {.counts = true};
  put_result(&out, self);
  return out.length;
}

char *step_result_write(const struct step_result *self, char *at) {
  struct sink out = {.counts = false};
  out.at = at;
  put_result(&out, self);
  return out.at;
}
