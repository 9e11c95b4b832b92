#include "agent/frontends/http/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

#define JSON_TYPE "application/json"

/* A proxy such as nginx would otherwise collect a stream before it passes it on. */
#define STREAM_FIELDS "X-Accel-Buffering: no\r\n"

bool reader_is_stream(const struct reader *self) {
  return self->form == READER_NDJSON || self->form == READER_SSE;
}

static void write_bytes(struct reader *self, const char *bytes, size_t length) {
  if (length > 0)
    self->written_ms = clock_monotonic_ms();
  http_stream_write(self->exchange, bytes, length);
}

/* --- a result alone --------------------------------------------------------------------------- */

static void begin_result(struct reader *self) {
  self->form = READER_RESULT;
  http_stream_begin(self->exchange, 200, JSON_TYPE, NULL, self->step->result.length);
}

/* Writes as much of the result as the connection takes. Returns true if that was the rest. */
static bool write_result(struct reader *self) {
  const struct buffer *result = &self->step->result;
  const size_t capacity = http_stream_capacity(self->exchange);
  size_t length = result->length - self->result_written;
  if (length > capacity)
    length = capacity;
  write_bytes(self, result->bytes + self->result_written, length);
  self->result_written += length;
  return self->result_written == result->length;
}

/* --- streams ---------------------------------------------------------------------------------- */

static void write_text(struct reader *self, const char *text) {
  write_bytes(self, text, strlen(text));
}

static void write_gap(struct reader *self, uint64_t first, uint64_t last) {
  char timestamp[STEP_EVENT_TIMESTAMP_SIZE];
  struct buffer line = {0};
  step_event_timestamp(timestamp, clock_unix_ms());
  if (self->form == READER_SSE)
    buffer_add_format(&line, "id: %llu\ndata: ", (unsigned long long)last);
  buffer_add_format(&line, "{\"schemaVersion\":%d,\"stepId\":", self->step->schema_version);
  buffer_add_json(&line, self->step->id, strlen(self->step->id));
  buffer_add_format(&line,
                    ",\"kind\":\"gap\",\"line\":\"events %llu to %llu are no longer held\","
                    "\"timestamp\":\"%s\",\"seq\":%llu,\"firstSeq\":%llu}\n",
                    (unsigned long long)first, (unsigned long long)last, timestamp,
                    (unsigned long long)last, (unsigned long long)first);
  if (self->form == READER_SSE)
    buffer_add_string(&line, "\n");
  write_bytes(self, line.bytes, line.length);
  buffer_release(&line);
}

static size_t shorter(size_t length, size_t most) {
  return length < most ? length : most;
}

static bool write_lines(struct reader *self) {
  size_t length;
  const char *bytes = event_cursor_bytes(&self->cursor, &length);
  length = shorter(length, http_stream_capacity(self->exchange));
  if (length == 0)
    return false;
  write_bytes(self, bytes, length);
  self->is_within_event = bytes[length - 1] != '\n';
  event_cursor_advance(&self->cursor, length);
  return true;
}

/* Adds the next part of an event: its beginning with its number, and its end with an empty line. */
static size_t add_event_part(struct reader *self, struct buffer *out, const char *bytes,
                             size_t length) {
  const char *newline = memchr(bytes, '\n', length);
  const size_t part = newline != NULL ? (size_t)(newline + 1 - bytes) : length;
  if (!self->is_within_event)
    buffer_add_format(out, "id: %llu\ndata: ", (unsigned long long)self->cursor.seq);
  buffer_add(out, bytes, part);
  self->is_within_event = newline == NULL;
  if (newline != NULL) {
    buffer_add_string(out, "\n");
    self->cursor.seq++;
  }
  return part;
}

static bool write_sent_events(struct reader *self) {
  struct buffer out = {0};
  size_t length, used = 0;
  const char *bytes = event_cursor_bytes(&self->cursor, &length);
  length = shorter(length, http_stream_capacity(self->exchange));
  while (used < length && out.length < http_stream_capacity(self->exchange))
    used += add_event_part(self, &out, bytes + used, length - used);
  event_cursor_advance(&self->cursor, used);
  write_bytes(self, out.bytes, out.length);
  buffer_release(&out);
  return used > 0;
}

static bool has_unread_events(struct reader *self) {
  size_t length;
  (void)event_cursor_bytes(&self->cursor, &length);
  return length > 0;
}

static void write_stream_result(struct reader *self) {
  if (!self->has_begun_result && self->form == READER_SSE)
    write_text(self, "event: result\ndata: ");
  self->has_begun_result = true;
  if (!write_result(self))
    return;
  if (self->form == READER_SSE)
    write_text(self, "\n");
  http_stream_end(self->exchange);
}

/* Each round writes a block of events, or as much of it as the connection takes. */
static void write_stream(struct reader *self) {
  while (self->form == READER_SSE ? write_sent_events(self) : write_lines(self))
    continue;
  if (self->step->state == HTTP_STEP_FINISHED && !has_unread_events(self))
    write_stream_result(self);
}

void reader_write(struct reader *self) {
  if (reader_is_stream(self))
    write_stream(self);
  else if (self->form == READER_RESULT && write_result(self))
    http_stream_end(self->exchange);
}

void reader_notify(struct reader *self) {
  if (reader_is_stream(self))
    http_stream_wake(self->exchange);
  else if (self->form == READER_WAITS && self->step->state == HTTP_STEP_FINISHED)
    begin_result(self);
}

/* --- the life of a reader --------------------------------------------------------------------- */

/* Within an event the client has something to read, even if it reads slowly. */
static void break_silence(struct reader *self) {
  int64_t quiet_ms = clock_monotonic_ms() - self->written_ms;
  if (quiet_ms >= READER_QUIET_MS) {
    if (!self->is_within_event)
      write_text(self, self->form == READER_SSE ? ":\n\n" : "\n");
    quiet_ms = 0;
  }
  loop_timer_start(self->timer, READER_QUIET_MS - quiet_ms);
}

LOOP_CALLBACK(on_timer, struct reader *self) {
  if (self->form == READER_WAITS) {
    self->form = READER_STATE;
    reader_respond_state(self->step, self->exchange);
  } else if (reader_is_stream(self) && !self->has_begun_result) {
    break_silence(self);
  }
}

static struct reader *reader_new(struct event_base *base, struct http_step *step,
                                 struct http_exchange *exchange, enum reader_form form) {
  struct reader *self = memory_zeros(sizeof *self);
  self->step = step;
  self->exchange = exchange;
  self->form = form;
  self->timer = loop_timer_new(base, on_timer, self);
  list_append(&step->readers, &self->node);
  http_exchange_set_user_data(exchange, self);
  return self;
}

void reader_open_result(struct event_base *base, struct http_step *step,
                        struct http_exchange *exchange) {
  begin_result(reader_new(base, step, exchange, READER_RESULT));
}

void reader_open_wait(struct event_base *base, struct http_step *step,
                      struct http_exchange *exchange, uint64_t seconds) {
  struct reader *self = reader_new(base, step, exchange, READER_WAITS);
  if (seconds > READER_WAIT_MAX_SECONDS)
    seconds = READER_WAIT_MAX_SECONDS;
  loop_timer_start(self->timer, (int64_t)seconds * 1000);
}

void reader_open_stream(struct event_base *base, struct http_step *step,
                        struct http_exchange *exchange, enum reader_form form, uint64_t after) {
  struct reader *self = reader_new(base, step, exchange, form);
  http_stream_begin(exchange, 200,
                    form == READER_SSE ? "text/event-stream" : "application/x-ndjson",
                    STREAM_FIELDS, HTTP_STREAM_OPEN);
  if (form == READER_SSE)
    write_text(self, "retry: 1000\n\n");
  event_cursor_open(&self->cursor, &step->events, after);
  if (self->cursor.seq > after + 1)
    write_gap(self, after + 1, self->cursor.seq - 1);
  self->written_ms = clock_monotonic_ms();
  loop_timer_start(self->timer, READER_QUIET_MS);
}

void reader_close(struct reader *self, bool is_sent) {
  event_cursor_close(&self->cursor);
  list_remove(&self->step->readers, &self->node);
  if (is_sent && self->result_written > 0)
    self->step->is_read = true;
  event_free(self->timer);
  free(self);
}

void reader_respond_state(const struct http_step *step, struct http_exchange *exchange) {
  struct buffer json = {0};
  steps_add_state(step, &json);
  http_respond(exchange, 202, JSON_TYPE, NULL, &json);
}
