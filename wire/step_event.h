#ifndef WIRE_STEP_EVENT_H
#define WIRE_STEP_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum step_event_kind {
  STEP_EVENT_STARTED,
  STEP_EVENT_STDOUT,
  STEP_EVENT_STDERR,
  STEP_EVENT_COMPLETED
};

/* "2026-05-05T10:00:00.123+00:00" and a NUL. */
#define STEP_EVENT_TIMESTAMP_SIZE 30

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

/* The exact number of bytes that step_event_write writes. */
size_t step_event_length(const struct step_event *self);

/* Writes the event's JSON, no NUL after it; returns the end. */
char *step_event_write(const struct step_event *self, char *out);

/* Reads the seq of an event, JSON of `length` bytes, and its schemaVersion, which is 1 where it
   cannot be read. Returns -1 when it is not an event of this step (`step_id` is not escaped). */
int64_t step_event_read_seq(const char *json, size_t length, const char *step_id,
                            int *schema_version);

#endif
