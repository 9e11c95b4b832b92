#ifndef CLIENT_STEPS_EVENT_H
#define CLIENT_STEPS_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "wire/step_report.h"

/* A StepEvent as it was read. Texts are within the JSON, or in the space that event_parse was
   given. */
struct event_view {
  enum step_event_kind kind;
  const char *step_id;
  size_t step_id_length;
  const char *line; /* without its line end */
  size_t line_length;
  bool partial; /* the line goes on in the next event of this stream */
  const char *timestamp;
  size_t timestamp_length;
  uint64_t seq;
};

/* `space` holds what had escapes, until the next call. False: it is no StepEvent. */
bool event_parse(struct event_view *self, const char *json, size_t length, struct buffer *space);

/* exit=N timedOut=True of a `completed`; false when it is neither. */
bool event_read_completed(const struct event_view *self, int *exit_code, bool *timed_out);

/* Milliseconds since 1970 of its timestamp, which is UTC; false when it has none. */
bool event_read_time(const struct event_view *self, int64_t *unix_ms);

#endif
