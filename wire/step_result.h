#ifndef WIRE_STEP_RESULT_H
#define WIRE_STEP_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decimal.h"

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

/* The exact number of bytes that step_result_write writes. */
size_t step_result_length(const struct step_result *self);

/* Writes the result's JSON, no NUL after it; returns the end. */
char *step_result_write(const struct step_result *self, char *out);

/* Writes a duration in seconds with up to three decimals, without trailing zeros, and a NUL: 600,
   1.23, 0.012. */
#define STEP_RESULT_SECONDS_SIZE (DECIMAL_LENGTH_MAX + sizeof ".123")
void step_result_seconds(char out[STEP_RESULT_SECONDS_SIZE], int64_t duration_ms);

#endif
