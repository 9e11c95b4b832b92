#ifndef WIRE_STEP_REPORT_H
#define WIRE_STEP_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decimal.h"

enum step_event_kind {
  STEP_EVENT_STARTED,
  STEP_EVENT_STDOUT,
  STEP_EVENT_STDERR,
  STEP_EVENT_COMPLETED
};

/* "2026-05-05T10:00:00.123+00:00" and a NUL. */
#define STEP_EVENT_TIMESTAMP_SIZE 30

/* What is reported of a step, as JSON: events and one result. First get the length, then write exactly
   that many bytes, without a NUL after them, straight into the buffer that is sent; returns the end. */

/* One StepEvent. Owns nothing: what it points to must be valid during the calls below. */
struct step_event {
  int schema_version; /* 1 or 2: step_answer_version */
  enum step_event_kind kind;
  const char *step_id; /* already the inside of a JSON string: escape it once per step */
  size_t step_id_length;
  const char *line; /* any bytes, without its line ending */
  size_t line_length;
  bool partial;          /* the line continues in this stream's next event: "partial":true */
  const char *timestamp; /* from step_event_timestamp */
  uint64_t seq;          /* 1, 2, 3… within the step: a reader detects a gap */
};

/* Formats a time (milliseconds since 1970, UTC), years 1970 to 9999. */
void step_event_timestamp(char out[STEP_EVENT_TIMESTAMP_SIZE], int64_t unix_ms);

size_t step_event_length(const struct step_event *self);
char *step_event_write(const struct step_event *self, char *at);

/* Reads the seq of an event, JSON of `length` bytes, and its schemaVersion, which is 1 where it
   cannot be read. Returns -1 when it is not an event of this step (`step_id` is not escaped). */
int64_t step_event_read_seq(const char *json, size_t length, const char *step_id,
                            int *schema_version);

/* One StepResult. Owns nothing. Texts may be any bytes; NULL becomes JSON's null. */
struct step_result {
  int schema_version; /* 1 or 2: step_answer_version */
  const char *step_id;
  int exit_code;
  bool timed_out;
  int64_t duration_ms;
  const char *error_message;
  size_t error_message_length;
  const char *output_content;
  size_t output_content_length;
  int64_t event_count; /* events of the step, `completed` included; -1, not known, becomes null */
};

/* An answer of the agent's own: -1, and why. No events, no output. */
struct step_result step_result_of_agent(int schema_version, const char *step_id,
                                        const char *reason);

size_t step_result_length(const struct step_result *self);
char *step_result_write(const struct step_result *self, char *at);

/* Writes a duration in seconds with up to three decimals, without trailing zeros, and a NUL: 600,
   1.23, 0.012. */
#define STEP_RESULT_SECONDS_SIZE (DECIMAL_LENGTH_MAX + sizeof ".123")
void step_result_seconds(char out[STEP_RESULT_SECONDS_SIZE], int64_t duration_ms);

#endif
