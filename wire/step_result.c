#include "wire/step_result.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/json_string.h"

static const char before_version[] = "{\"schemaVersion\":";
static const char before_id[] = ",\"stepId\":\"";
static const char before_error[] = ",\"errorMessage\":";
static const char before_output[] = ",\"outputContent\":";
static const char before_count[] = ",\"eventCount\":";

/* Room for everything between the id and the error message, its numbers at their longest. */
#define NUMBERS_SIZE 128

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

static const char numbers_format[] = "\",\"exitCode\":%d,\"timedOut\":%s,\"durationSeconds\":%s";
static_assert(sizeof numbers_format + sizeof "-2147483648" + sizeof "false" +
                      STEP_RESULT_SECONDS_SIZE <=
                  NUMBERS_SIZE,
              "the longest fits");

static size_t format_numbers(char out[NUMBERS_SIZE], const struct step_result *self) {
  char seconds[STEP_RESULT_SECONDS_SIZE];
  step_result_seconds(seconds, self->duration_ms);
  return (size_t)snprintf(out, NUMBERS_SIZE, numbers_format, self->exit_code,
                          self->timed_out ? "true" : "false", seconds);
}

static size_t count_length(int64_t count) {
  return count < 0 ? sizeof "null" - 1 : decimal_length((uint64_t)count);
}

static size_t nullable_length(const char *text, size_t length) {
  return text == NULL ? sizeof "null" - 1 : json_string_length(text, length) + 2;
}

static char *put(char *out, const char *text, size_t length) {
  memcpy(out, text, length);
  return out + length;
}

static char *write_nullable(char *out, const char *text, size_t length) {
  if (text == NULL)
    return put(out, "null", sizeof "null" - 1);
  *out++ = '"';
  out = json_string_write(out, text, length);
  *out++ = '"';
  return out;
}

static char *write_count(char *out, int64_t count) {
  return count < 0 ? put(out, "null", sizeof "null" - 1) : decimal_write(out, (uint64_t)count);
}

struct step_result step_result_of_agent(int schema_version, const char *step_id,
                                        const char *reason) {
  return (struct step_result){.schema_version = schema_version,
                              .step_id = step_id,
                              .exit_code = -1,
                              .error_message = reason,
                              .error_message_length = strlen(reason)};
}

size_t step_result_length(const struct step_result *self) {
  char numbers[NUMBERS_SIZE];
  return sizeof before_version - 1 + sizeof "2" - 1 + sizeof before_id - 1 +
         json_string_length(self->step_id, strlen(self->step_id)) + format_numbers(numbers, self) +
         sizeof before_error - 1 +
         nullable_length(self->error_message, self->error_message_length) + sizeof before_output -
         1 + nullable_length(self->output_content, self->output_content_length) +
         sizeof before_count - 1 + count_length(self->event_count) + sizeof "}" - 1;
}

char *step_result_write(const struct step_result *self, char *out) {
  char numbers[NUMBERS_SIZE];
  size_t numbers_length = format_numbers(numbers, self);
  out = put(out, before_version, sizeof before_version - 1);
  *out++ = (char)('0' + self->schema_version);
  out = put(out, before_id, sizeof before_id - 1);
  out = json_string_write(out, self->step_id, strlen(self->step_id));
  out = put(out, numbers, numbers_length);
  out = put(out, before_error, sizeof before_error - 1);
  out = write_nullable(out, self->error_message, self->error_message_length);
  out = put(out, before_output, sizeof before_output - 1);
  out = write_nullable(out, self->output_content, self->output_content_length);
  out = put(out, before_count, sizeof before_count - 1);
  out = write_count(out, self->event_count);
  *out++ = '}';
  return out;
}
