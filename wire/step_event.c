#include "wire/step_event.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "base/decimal.h"
#include "base/json_string.h"
#include "base/swar.h"
#include "wire/json_tree.h"

static const char before_version[] = "{\"schemaVersion\":";
static const char before_id[] = ",\"stepId\":\"";
static const char before_kind[] = "\",\"kind\":\"";
static const char before_line[] = "\",\"line\":\"";
static const char before_timestamp[] = "\",\"timestamp\":\"";
static const char before_seq[] = "\",\"seq\":";
static const char after_seq[] = "}";
static const char after_seq_partial[] = ",\"partial\":true}";

#define TIMESTAMP_LENGTH ((size_t)STEP_EVENT_TIMESTAMP_SIZE - 1)
static_assert(sizeof "2026-05-05T10:00:00.123+00:00" == STEP_EVENT_TIMESTAMP_SIZE, "its NUL too");

/* 9999-12-31T23:59:59.999 */
#define LAST_MS INT64_C(253402300799999)

static const char kind_names[][sizeof "completed"] = {[STEP_EVENT_STARTED] = "started",
                                                      [STEP_EVENT_STDOUT] = "stdout",
                                                      [STEP_EVENT_STDERR] = "stderr",
                                                      [STEP_EVENT_COMPLETED] = "completed"};

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

static char *put(char *out, const char *text, size_t length) {
  return swar_copy(out, text, length);
}

size_t step_event_length(const struct step_event *self) {
  size_t fixed = sizeof before_version + sizeof before_id + sizeof before_kind +
                 sizeof before_line + sizeof before_timestamp + sizeof before_seq - 6 +
                 TIMESTAMP_LENGTH + sizeof "2" - 1;
  size_t after = self->partial ? sizeof after_seq_partial : sizeof after_seq;
  return fixed + after - 1 + strlen(kind_names[self->kind]) + self->step_id_length +
         json_string_length(self->line, self->line_length) + decimal_length(self->seq);
}

char *step_event_write(const struct step_event *self, char *out) {
  const char *kind = kind_names[self->kind];
  out = put(out, before_version, sizeof before_version - 1);
  *out++ = (char)('0' + self->schema_version);
  out = put(out, before_id, sizeof before_id - 1);
  out = put(out, self->step_id, self->step_id_length);
  out = put(out, before_kind, sizeof before_kind - 1);
  out = put(out, kind, strlen(kind));
  out = put(out, before_line, sizeof before_line - 1);
  out = json_string_write(out, self->line, self->line_length);
  out = put(out, before_timestamp, sizeof before_timestamp - 1);
  out = put(out, self->timestamp, TIMESTAMP_LENGTH);
  out = put(out, before_seq, sizeof before_seq - 1);
  out = decimal_write(out, self->seq);
  if (self->partial)
    return put(out, after_seq_partial, sizeof after_seq_partial - 1);
  return put(out, after_seq, sizeof after_seq - 1);
}

int64_t step_event_read_seq(const char *json, size_t length, const char *step_id,
                            int *schema_version) {
  cJSON *event = json_tree_parse_own(json, length, NULL);
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
